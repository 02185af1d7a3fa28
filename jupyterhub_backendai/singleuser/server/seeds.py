"""Files that a session's home begins with. What is there is never touched, and no link followed."""

from __future__ import annotations

import os
from typing import Any

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeds")
FILES = {".bashrc": "bashrc", ".bash_profile": "bash_profile", ".tmux.conf": "tmux.conf"}
# bash reads the first of these three alone: ours must not hide one that is there.
_INSTEAD = {".bash_profile": (".bash_login", ".profile")}


def sow(log: Any) -> None:
    """Writes each file into $HOME where there is none; what fails is logged in one line."""
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        return  # nobody's
    failed = []
    for name, seed in FILES.items():
        try:
            _sow(home, name, seed)
        except FileExistsError:
            continue
        except OSError as error:
            failed.append(f"{name} ({error.strerror})")
    if failed:
        log.warning("Backend.AI: not written to %s: %s", home, ", ".join(failed))


def _sow(home: str, name: str, seed: str) -> None:
    if any(os.path.lexists(os.path.join(home, other)) for other in _INSTEAD.get(name, ())):
        return
    with open(os.path.join(HERE, seed), "rb") as file:
        content = file.read()
    path = os.path.join(home, name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(path, flags, 0o644)
    try:
        with os.fdopen(made, "wb") as file:
            file.write(content)
    except OSError:  # a full disk: rather none than half of one
        os.unlink(path)
        raise
