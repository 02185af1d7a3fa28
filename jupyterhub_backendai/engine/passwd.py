"""The name that a session's user has in its container: `/etc/passwd`, read and written as text.

An image knows its own users. Whoever runs as another number has no name and no home there: `sshd`
lets nobody in, `whoami` and Python's `getpass` fail, and a login shell begins in another home.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

USER = "work"
MOST = 1024 * 1024  # bytes of such a file; more is none
_FALLBACK = "/bin/sh"
_SHELL = re.compile(r"/[A-Za-z0-9._/+-]{1,200}")  # nothing that could be another field, or line


def with_user(text: str, uid: int, gid: int, home: str, shell: str = "") -> str:
    """The file with a first line for this user, by which both its number and its name are found.

    `shell`: as the image's variables have it, where anything may be; else the image's own user of
    that number has one, else root has. Nothing is changed for root, who is in every image.
    """
    if uid == 0:
        return text
    own = f"{USER}:x:{uid}:{gid}::{home}:"
    if text.startswith(own):  # of the session that the image was made of
        text = text.partition("\n")[2]
    shell = shell if _SHELL.fullmatch(shell) else ""
    shell = shell or _shell_of(text, str(uid)) or _shell_of(text, "0") or _FALLBACK
    return f"{own}{shell}\n{text}"


def _shell_of(text: str, uid: str) -> str:
    """The shell of the first user of that number who may sign in; empty where there is none."""
    for fields in _rows(text):
        if fields[2] == uid and not fields[6].endswith(("/nologin", "/false", "/sync")):
            return fields[6]
    return ""


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) == 7:
            yield fields
