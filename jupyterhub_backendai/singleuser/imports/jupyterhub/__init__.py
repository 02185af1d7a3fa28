"""Stands before the real `jupyterhub` on the import path of a session's server, and gives way."""

import _backendai_start

_backendai_start.give_way(__name__)
