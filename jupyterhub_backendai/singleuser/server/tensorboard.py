"""TensorBoard: asks for a log directory, and is started with it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import NamedTuple

from . import known

NAME = "tensorboard"
PORT = 6006
ARGUMENT = "logdir"
FIELD = "arguments.logdir"
NOT_INSTALLED = "TensorBoard is not installed here. Run: pip install tensorboard"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Refused(Exception):
    """The log directory can't be one: a code and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Ask(NamedTuple):
    """Something that an app asks for before it starts."""

    name: str
    title: str
    value: str


def ask(value: str = "") -> Ask:
    return Ask(ARGUMENT, "Log directory", value or default())


def default() -> str:
    return os.path.join(known.home(), "logs")


def program() -> list[str]:
    """The start of its command; [] where it isn't installed. Looked up anew each time."""
    found = shutil.which("tensorboard")
    if found:
        return [found]
    if known.has_module("tensorboard"):
        return [sys.executable, "-m", "tensorboard.main"]
    return []


def command(logdir: str, port: int) -> list[str]:
    return [*program(), "--logdir", logdir, "--host", "127.0.0.1", "--port", str(port)]


def directory(said: object) -> str:
    """The log directory that was asked for, made where it is to be below home. Blocks.

    Raises Refused.
    """
    if not isinstance(said, str) or not said.strip() or "\0" in said or len(said) > 4096:
        raise Refused("value", "Give the path of a directory.")
    asked = os.path.expanduser(said.strip())
    if _URL.match(asked):
        raise Refused("url", "Give a directory of this session. Copy the logs into one first.")
    if asked.startswith("~"):
        raise Refused("missing", f"There is no user {asked[1:].split('/')[0]}.")
    path = os.path.normpath(os.path.join(known.home(), asked))
    if not os.path.exists(path):
        _make(path)
    if not os.path.isdir(path):
        raise Refused("not_a_directory", f"{path} is a file. Give the directory that it is in.")
    if not os.access(path, os.R_OK | os.X_OK):
        raise Refused("not_readable", f"You may not read {path}.")
    return path


def _make(path: str) -> None:
    home = os.path.realpath(known.home())
    if not os.path.realpath(path).startswith(home.rstrip("/") + "/"):
        raise Refused("missing", f"There is no directory {path}.")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise Refused("missing", f"{path} cannot be made: {why}.") from error
