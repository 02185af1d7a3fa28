"""Every test of the store runs on SQLite and on a PostgreSQL server that the tests start."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import psycopg
import pytest
from store_samples import NOW, slots

from jupyterhub_backendai.store import AgentReport, Store
from jupyterhub_backendai.store.database import Database

_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "listen_addresses": "",
}


def _programs() -> Path:
    """Where Debian puts initdb and postgres; the newest version of them."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3])
    )
    if not found:
        pytest.fail("PostgreSQL's server programs are missing: run `make test`, it installs them")
    return found[-1].parent


class Cluster:
    """A PostgreSQL server of our own, on a socket in its own folder."""

    def __init__(self) -> None:
        programs, root = _programs(), os.geteuid() == 0
        # The server refuses to run as root; Debian's package brings a user for it.
        self._as = {"user": "postgres", "group": "postgres", "extra_groups": []} if root else {}
        self.folder = Path(tempfile.mkdtemp(prefix="backendai-pg-"))
        if root:
            shutil.chown(self.folder, "postgres", "postgres")
        data = self.folder / "data"
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "hub", "-A", "trust", "-EUTF8", "--no-sync"],
            check=True, cwd=self.folder, stdout=subprocess.DEVNULL, **self._as,
        )  # fmt: skip
        settings = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
        self.process = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", self.folder, *settings],
            cwd=self.folder, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"}, **self._as,
        )  # fmt: skip
        self._until_ready()

    def _until_ready(self) -> None:
        log: IO[str] | None = self.process.stderr
        assert log is not None
        said = []
        for line in log:
            said.append(line)
            if "ready to accept connections" in line:
                break
        else:
            pytest.fail("PostgreSQL did not start:\n" + "".join(said))
        threading.Thread(target=log.read, daemon=True).start()  # so that it never blocks on us

    @property
    def url(self) -> str:
        return f"postgresql://hub@/postgres?host={self.folder}"

    def empty(self) -> None:
        """Ends what an earlier test left and removes its tables; faster than a new database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
            )
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)  # "fast": connections are cut
        self.process.wait(timeout=30)
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store.sqlite"
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    cluster.empty()
    yield cluster.url


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.close()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A store with one agent of four cores and 8 GiB."""
    store = Store(url)
    store.upgrade()
    store.report_agents([AgentReport("a1", "default", slots(cpu=4, gib=8))], now=NOW)
    yield store
    store.close()
