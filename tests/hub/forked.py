"""Hubs forked from a process that has imported what every Hub imports.

Python spends more processor time on a Hub's imports than on all else that a test has it do, and a
run starts dozens of Hubs. Nothing else is shared: each is a process of its own, in a session of
its own, and reads its configuration as `python -m jupyterhub` does.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_IMPORTED = ["jupyterhub.app", "jupyterhub_backendai.registration"]
_IMPORTED += ["jupyterhub_backendai.spawner.docker", "jupyterhub_backendai.spawner.inherited"]
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(_IMPORTED)


class ForkedHub:
    """As much of `subprocess.Popen` as the tests use."""

    def __init__(self, config: Path, log: Path, environment: Mapping[str, str]) -> None:
        # A daemon, so that it does not outlive tests that are interrupted.
        arguments = (config, log, dict(environment))
        self._process = _FORKS.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("jupyterhub", timeout or 0)
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def _run(config: Path, log: Path, environment: dict[str, str]) -> None:
    """`python -m jupyterhub -f CONFIG`, in the directory of its configuration."""
    os.setsid()
    os.chdir(config.parent)
    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    sys.argv = ["jupyterhub", "-f", str(config)]
    runpy.run_module("jupyterhub", run_name="__main__")
