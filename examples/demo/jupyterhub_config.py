"""The Hub that `make run` starts: one machine, two users and an admin.

Its working directory is the folder where the Hub keeps its files (`.run`); everything else is below.
"""

import os
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

# What users may start: environments, each with its versions, and amounts with a name.
c.BackendAI.environments = [
    {
        "name": "python",
        "title": "Python",
        "description": "JupyterLab with NumPy and Matplotlib",
        "icon": "code",
        "versions": [{"name": "3.11", "image": "backendai-demo:latest"}],
        "minimum": {"cpu": 0.5, "mem": "512m"},
    },
    {
        "name": "notebook",
        "title": "Notebook",
        "description": "The same, with one document a page",
        "icon": "book-open",
        "versions": [{"name": "7", "image": "backendai-demo:latest"}],
        "minimum": {"cpu": 0.5, "mem": "512m"},
        "command": ["jupyterhub-singleuser", "--ServerApp.default_url=/tree"],
    },
]
c.BackendAI.presets = [
    {"name": "small", "cpu": 0.5, "mem": "1g", "description": "for reading and writing"},
    {"name": "medium", "cpu": 1, "mem": "2g", "description": "for a course's exercises"},
    {"name": "large", "cpu": 2, "mem": "3g", "description": "all that one user may have"},
]

# How much of the machine each may have in all sessions together: what is more waits in line.
# They may open their apps to everybody who knows the address, which here is this machine alone.
c.BackendAI.default_policy = {
    "total": {"cpu": 2, "mem": "3g"},
    "max_sessions": 3,
    "public_apps": True,
}
c.BackendAI.user_policies = {"admin": {}}

# GPUs that do not exist, where `GPUS=2 make run` asks for them; real ones are offered by
# c.BackendAI.gpus. All else of the demo is as it is without.
if simulated := int(os.environ.get("GPUS") or 0):
    c.BackendAI.simulated_gpus = simulated
    c.BackendAI.presets.append(
        {
            "name": "gpu",
            "cpu": 0.5,
            "mem": "1g",
            "fgpu": 0.5,
            "description": "with a tenth of a GPU",
        }
    )
    c.BackendAI.default_policy["total"]["fgpu"] = 5

# Folders outlive the sessions that mount them; everything else of a session goes with it.
c.BackendAI.folder_root = str(here / "folders")

# By this word `make run` finds the containers that it has to remove when it ends.
c.BackendAI.hub_id = os.environ["BACKENDAI_HUB_ID"]
c.BackendAI.database_url = f"sqlite:///{here / 'backendai.sqlite'}"

from jupyterhub_backendai import setup  # noqa: E402

setup(c)
