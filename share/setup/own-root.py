#!/usr/bin/env python3
"""Runs a program for whom `/` is the root of its mount namespace, in a chroot too.

    own-root.py PROGRAM ARGUMENT...

A Docker daemon that runs in a chroot makes containers whose `docker exec` lands outside of them, in
the root directory of the machine: entering a mount namespace leads to that namespace's own root.
Where `/` is that root already, and where we may not know, the program is run as it is.
"""

from __future__ import annotations

import ctypes
import os
import sys

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE, MNT_DETACH = 0x4000, 1 << 18, 2
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

libc = ctypes.CDLL(None, use_errno=True)


def check(status: int) -> None:
    if status != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def to_the_root_of_the_namespace() -> int:
    """Leaves a chroot; returns a descriptor of the directory that was `/`."""
    before = os.open("/", os.O_PATH | os.O_DIRECTORY)
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    check(libc.setns(own, CLONE_NEWNS))
    os.close(own)
    return before


def have_own_root() -> None:
    # First of all one's own copy of the mounts: what is done below is for this program alone.
    check(libc.unshare(CLONE_NEWNS))
    root = to_the_root_of_the_namespace()
    if os.path.samestat(os.fstat(root), os.stat("/")):
        return
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    os.fchdir(root)
    check(libc.syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b"."))
    check(libc.umount2(b".", MNT_DETACH))
    os.chdir("/")


def in_a_chroot() -> bool:
    child = os.fork()
    if child == 0:
        try:
            root = to_the_root_of_the_namespace()
            os._exit(0 if os.path.samestat(os.fstat(root), os.stat("/")) else 1)
        except OSError:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return status != 0


if in_a_chroot():
    have_own_root()
os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - there is none
