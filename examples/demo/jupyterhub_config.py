"""The Hub that `make run` starts: one machine, two users, one environment.

Its working directory is the folder where the Hub keeps its files (`.run`); everything else is below.
"""

from pathlib import Path

c = get_config()
here = Path.cwd()

# Only this machine reaches the Hub. Use HTTPS before you let anyone else in.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"

# Who may sign in. Take the authenticator of your organisation instead.
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = (here / "password").read_text().strip()
c.SharedPasswordAuthenticator.admin_password = (here / "admin-password").read_text().strip()
c.Authenticator.allowed_users = {"alice", "bob"}
c.Authenticator.admin_users = {"admin"}

# What users may start, and how much of the machine they may have.
c.BackendAI.environments = [
    {
        "name": "python",
        "title": "Python",
        "description": "JupyterLab with NumPy and Matplotlib",
        "icon": "code",
        "versions": [{"name": "3.11", "image": "backendai-demo:latest"}],
        "minimum": {"cpu": 0.5, "mem": "512m"},
        "apps": ["jupyterlab", "notebook", "terminal"],
    },
]
c.BackendAI.presets = [
    {"name": "small", "cpu": 1, "mem": "1g"},
    {"name": "medium", "cpu": 2, "mem": "2g"},
]
c.BackendAI.folder_root = str(here / "folders")
c.BackendAI.database_url = f"sqlite:///{here / 'backendai.sqlite'}"

from jupyterhub_backendai import setup  # noqa: E402

setup(c)
