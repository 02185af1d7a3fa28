"""A Hub in a container. What differs between machines is in the environment, see compose.yaml."""

import os

c = get_config()

c.JupyterHub.bind_url = "http://0.0.0.0:8000"
# Sessions go on while the Hub's container is replaced by a newer one.
c.JupyterHub.cleanup_servers = False
# Not beside the database: a new container would take another process for the old one's proxy.
c.ConfigurableHTTPProxy.pid_file = "/run/jupyterhub-proxy.pid"

# Who may sign in. Take the authenticator of your organisation instead.
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ["USER_PASSWORD"]
c.SharedPasswordAuthenticator.admin_password = os.environ["ADMIN_PASSWORD"]
c.Authenticator.allowed_users = {"alice", "bob"}
c.Authenticator.admin_users = {"admin"}

# What users may start.
c.BackendAI.environments = [
    {
        "name": "python",
        "title": "Python",
        "description": "JupyterLab with NumPy and Matplotlib",
        "icon": "code",
        "versions": [{"name": "3.11", "image": os.environ["SESSION_IMAGE"]}],
        "minimum": {"cpu": 0.5, "mem": "512m"},
    },
]
c.BackendAI.presets = [
    {"name": "small", "cpu": 1, "mem": "1g"},
    {"name": "medium", "cpu": 2, "mem": "2g"},
]

# The Hub is in a container, the Docker engine is not: they see the folders at different paths.
c.BackendAI.folder_root = "/srv/folders"
c.BackendAI.folder_root_on_host = os.environ["FOLDERS"]

# Sessions are on the Hub's network, where they find it by the name of its service.
c.DockerSpawner.network_name = os.environ["SESSIONS_NETWORK"]

from jupyterhub_backendai import setup  # noqa: E402

setup(c)
