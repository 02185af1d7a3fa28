"""Sphinx with MyST. Parts of the reference are written from the code at each build."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import generate_reference  # noqa: E402

project = "jupyterhub-backendai"
copyright = "the contributors of jupyterhub-backendai"
release = version = installed("jupyterhub-backendai")

extensions = ["myst_parser"]
exclude_patterns = ["_build", "reference/generated"]  # the latter is included by pages
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

html_theme = "alabaster"
html_title = f"{project} {release}"
html_theme_options = {
    "description": "Compute sessions for JupyterHub",
    "fixed_sidebar": True,
    "page_width": "1080px",
}
html_copy_source = False
html_show_sphinx = False

generate_reference.write(HERE / "reference" / "generated")
