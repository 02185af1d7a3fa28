"""What the configuration says of the registry that users' images go to."""

from __future__ import annotations

import os
import stat
from textwrap import dedent

from traitlets import Dict, HasTraits

from .configuration_values import read_as, wrong
from .model.registry import ImageRegistry


class RegistryTraits(HasTraits):
    """These traits of `c.BackendAI`."""

    image_registry = Dict(
        help=dedent(
            """
            Send the images that users make of their sessions to this registry, so that all agents
            have them. Without one, an image stays on the agent where it was made, and sessions
            from it start there only. Keys:

            * `prefix`: the registry's address and a place in it.
            * `user`: who signs in; without one nobody does.
            * `password_file`: a file with the password, which nobody else may read. It is read
              each time, so it may be changed at any time.

            Let nobody but this user read and write there: whoever can pull an image has all that is
            in it. Example::

                c.BackendAI.image_registry = {
                    "prefix": "registry.example.org/lab",
                    "user": "hub",
                    "password_file": "/etc/jupyterhub/registry-password",
                }
            """
        ),
    ).tag(config=True)


def read_registry(given: RegistryTraits) -> ImageRegistry | None:
    """The registry; None: images stay where they are made. Raises `ConfigurationError`."""
    if not given.image_registry:
        return None
    return read_as("image_registry", given.image_registry, ImageRegistry)


def check_registry(given: RegistryTraits) -> None:
    """Raises `ConfigurationError` for what is wrong, the file of the password included."""
    registry = read_registry(given)
    if registry is None or registry.password_file is None:
        return
    problem = password_problem(registry.password_file)
    if problem is not None:
        raise wrong("image_registry.password_file", registry.password_file, *problem)


def password_problem(path: str) -> tuple[str, str] | None:
    """What is wrong with a file that has a password in it, and the remedy."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return f"It cannot be read: {error.strerror}.", "Write the password to that file."
    if not stat.S_ISREG(mode):
        return "It is no file.", "Name a file with the password in it."
    if mode & stat.S_IRWXO:
        return "Everybody on this machine may read it.", f"Run: chmod 600 {path}"
    if not os.access(path, os.R_OK):
        return "The user that runs the Hub may not read it.", "Give the file to that user."
    return None
