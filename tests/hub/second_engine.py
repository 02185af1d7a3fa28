"""A second Docker daemon on this machine, with images, containers and a network of its own."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import shutil
import signal
import socket
import subprocess
import zlib
from pathlib import Path
from typing import Any

import docker

from .harness import IMAGE, wait_for

KEPT = Path(__file__).resolve().parents[2] / ".run" / "second-engine"
OF = "of-image"  # the label that says which of the first daemon's images a copy is of


class SecondEngine:
    """Started, killed and started again by its pid; its images are kept between runs.

    It leaves iptables alone: two daemons that both think that they own the chains would remove
    each other's rules, and sessions need no more than this machine itself.
    """

    def __init__(self, run_directory: Path, place: int = 0, **settings: Any) -> None:
        """`place`: a number of its own for each file of tests that may run beside others.
        `settings`: what is in the daemon's configuration file."""
        self.kept = KEPT if place == 0 else KEPT.with_name(f"{KEPT.name}-{place}")
        number = zlib.crc32(bytes(KEPT)) + place
        self.bridge = f"bk{number % 2**32:08x}"
        subnet = ipaddress.ip_network((0x0AE70000 + (number % 256 << 8), 24))  # 10.231.x.0/24
        self.gateway = str(subnet[1])
        self.prefix = f"{self.gateway}/24"
        self.run = run_directory
        self.socket = f"unix://{self.run}/docker.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self.settings = settings
        self.kept.mkdir(parents=True, exist_ok=True)

    def start(self, wait: bool = True) -> SecondEngine:
        self._end_earlier()
        # Not by /sys, which may be another network namespace's.
        if self.bridge not in {name for _, name in socket.if_nameindex()}:
            ip("link", "add", self.bridge, "type", "bridge")
            ip("address", "add", self.prefix, "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        settings = self.run / "daemon.json"
        settings.write_text(json.dumps(self.settings))
        with open(self.run / "dockerd.log", "ab") as log:
            self.process = subprocess.Popen(
                [
                    "dockerd", "--config-file", settings, "--host", self.socket,
                    "--data-root", self.kept / "data", "--exec-root", self.run / "exec",
                    "--pidfile", self.kept / "pid", "--group", str(os.getgid()),
                    "--bridge", self.bridge, "--iptables=false", "--ip-masq=false",
                    "--ip-forward=false", "--live-restore",
                ],
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        if wait:
            wait_for("the second Docker daemon", self.answers)
        return self

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=self.socket, version="auto", timeout=300)

    def answers(self) -> bool:
        """Whether it is there. Fails where it ended by itself."""
        assert self.process is not None
        log = self.run / "dockerd.log"
        assert self.process.poll() is None, log.read_text(errors="replace")[-3000:]
        with contextlib.suppress(docker.errors.DockerException):
            return bool(self.client().ping())
        return False

    def kill(self) -> None:
        """kill -9 of the daemon; its containers go on (live restore)."""
        assert self.process is not None
        containerd = Path(f"/proc/{(self.run / 'exec/containerd/containerd.pid').read_text()}")
        self.process.kill()
        self.process.wait()
        # It dies with its daemon, but not at once, and the next daemon would take it for its own.
        wait_for("its containerd to be gone", lambda: not containerd.exists())

    def stop(self) -> None:
        """Ends containers, daemon and bridge; the images stay."""
        if self.process is None:
            return
        if self.process.poll() is not None:
            self.start()  # for its containers, which outlive a killed daemon
        client = self.client()
        for container in client.containers.list(all=True, ignore_removed=True):
            container.remove(force=True, v=True)
        for volume in client.volumes.list():
            volume.remove(force=True)
        self.process.terminate()
        self.process.wait(30)
        ip("link", "delete", self.bridge)
        self._unmount()

    def _unmount(self) -> None:
        """What a daemon that was killed had mounted: its data, once for each time."""
        data = str(self.kept / "data")
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            place = line.split()[1]
            if place == data or place.startswith(f"{data}/"):
                subprocess.run(["umount", "-l", place], check=True)

    def _end_earlier(self) -> None:
        """A daemon that a killed test run left. Its containers went with their Hub."""
        with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
            pid = int((self.kept / "pid").read_text())
            if Path(f"/proc/{pid}/comm").read_text().strip() == "dockerd":
                os.kill(pid, signal.SIGTERM)
                wait_for("the earlier daemon to end", lambda: not Path(f"/proc/{pid}").exists())
        with contextlib.suppress(FileNotFoundError):
            (self.kept / "pid").unlink()

    def have_image(self) -> None:
        """The first daemon's demo image: its files as one layer, which is much quicker than
        `docker save` and `load`, and only where it is not there from an earlier run."""
        first, here = docker.from_env(), self.client()
        image = first.images.get(IMAGE)
        with contextlib.suppress(docker.errors.ImageNotFound):
            if here.images.get(IMAGE).labels.get(OF) == image.id:
                return
        config = image.attrs["Config"]
        changes = [f"ENV {line}" for line in config["Env"]]
        changes += [f"USER {config['User']}", f"WORKDIR {config['WorkingDir']}"]
        changes += ["CMD " + str(config["Cmd"]).replace("'", '"'), f"LABEL {OF}={image.id}"]
        container = first.containers.create(IMAGE, "true")
        try:
            with subprocess.Popen(
                ["docker", "export", container.id], stdout=subprocess.PIPE
            ) as export:
                subprocess.run(
                    ["docker", "--host", self.socket, "import"]
                    + [part for change in changes for part in ("--change", change)]
                    + ["-", IMAGE],
                    stdin=export.stdout, check=True, stdout=subprocess.DEVNULL,
                )  # fmt: skip
            assert export.returncode == 0
        finally:
            container.remove(force=True)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def missing() -> str:
    """Why there can be no second daemon here; "" where there can."""
    if os.geteuid() != 0:
        return "a second Docker daemon needs root"
    lacking = [name for name in ("dockerd", "ip", "docker") if not shutil.which(name)]
    return f"a second Docker daemon needs {' and '.join(lacking)}" if lacking else ""
