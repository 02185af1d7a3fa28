"""A batch session's job, and what is read of what became of it."""

from __future__ import annotations

import io
import json
import tarfile
from datetime import datetime, timezone
from typing import Any

import pytest
from golden_cases import WITH_FOLDERS, session
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.engine.batch import (
    BatchJob,
    Ending,
    Outcome,
    batch_job,
    is_result,
    log_path,
    outcome_of,
    started_at,
)
from jupyterhub_backendai.engine.inside import batch_entries
from jupyterhub_backendai.engine.settings import RUNNER, SiteSettings
from jupyterhub_backendai.engine.tar import archive
from jupyterhub_backendai.model.request import Work

AT = "2026-12-01T09:00:00.000+00:00"
THEN = datetime(2026, 12, 1, 9, tzinfo=timezone.utc)
YEAR_ONE = "0001-01-01T00:00:00+14:00"  # before the first moment of UTC
STARTED = json.dumps({"at": AT}).encode()


def result(**changes: Any) -> bytes:
    found = {
        "exit_code": 0, "signal": None, "started_at": AT, "ended_at": AT, "timed_out": False,
        "reason": "finished",
    }  # fmt: skip
    return json.dumps({**found, **changes}).encode()


@pytest.mark.parametrize(
    ("written", "outcome", "succeeded"),
    [
        (result(), Outcome(Ending.FINISHED, 0, None, THEN, THEN), True),
        (result(exit_code=3, reason="failed"), Outcome(Ending.FAILED, 3, None, THEN, THEN), False),
        (
            result(exit_code=137, signal=9, reason="killed"),
            Outcome(Ending.KILLED, 137, 9, THEN, THEN),
            False,
        ),
        (
            result(exit_code=0, reason="timed_out", timed_out=True),
            Outcome(Ending.TIMED_OUT, -2, None, THEN, THEN),
            False,
        ),
        (
            result(exit_code=None, started_at=None, reason="terminated"),
            Outcome(Ending.TERMINATED, None, None, None, THEN),
            None,
        ),
        (None, Outcome(Ending.INTERRUPTED, started_at=THEN), None),
        (b"", Outcome(Ending.INTERRUPTED, started_at=THEN), None),
        (b"{", Outcome(Ending.INTERRUPTED, started_at=THEN), None),
        (result(reason="<b>nonsense"), Outcome(Ending.INTERRUPTED, started_at=THEN), None),
        (result(exit_code="0; rm"), Outcome(Ending.INTERRUPTED, started_at=THEN), None),
        (result(exit_code=2**70), Outcome(Ending.INTERRUPTED, started_at=THEN), None),
        (result(signal=-(2**70)), Outcome(Ending.INTERRUPTED, started_at=THEN), None),
        (result(started_at=YEAR_ONE), Outcome(Ending.INTERRUPTED, started_at=THEN), None),
        (
            result(started_at="2026-12-01T18:00:00+09:00"),
            Outcome(Ending.FINISHED, 0, None, THEN, THEN),
            True,
        ),
    ],
    ids=[
        "0",
        "3",
        "killed",
        "timeout",
        "stopped",
        "no-word",
        "empty",
        "half",
        "word",
        "code",
        "huge-code",
        "huge-signal",
        "year-one",
        "elsewhere",
    ],
)
def test_what_became_of_it(written: bytes | None, outcome: Outcome, succeeded: bool | None) -> None:
    assert outcome_of(STARTED, written, out_of_memory=False) == outcome
    assert outcome.succeeded is succeeded
    assert is_result(written) is (outcome.ended_at is not None)


def test_a_container_that_is_gone_without_a_word() -> None:
    assert outcome_of(None, None, out_of_memory=True) == Outcome(Ending.NEVER_STARTED)
    found = outcome_of(STARTED, None, out_of_memory=True)
    assert (found.ending, found.succeeded) == (Ending.OUT_OF_MEMORY, False)
    assert started_at(json.dumps({"at": YEAR_ONE}).encode()) is None


@given(st.binary(max_size=200) | st.none(), st.binary(max_size=200) | st.none())
def test_whatever_a_user_puts_there_is_read(started: bytes | None, written: bytes | None) -> None:
    assert outcome_of(started, written, out_of_memory=False).succeeded is None


@pytest.mark.parametrize(
    ("mounts", "path"),
    [
        ([], None),
        ([{"folder": "papers"}], None),
        ([{"folder": "data", "permission": "ro"}], None),
        ([{"folder": ".config"}], None),
        ([{"folder": "papers"}, {"folder": "data", "path": "in/put"}], "/home/work/in/put/run.log"),
        ([{"folder": "lab/shared", "path": "pool"}], "/home/work/pool/run.log"),
        ([{"folder": "data"}, {"folder": ".logs", "create": True}], "/home/work/.logs/run.log"),
    ],
    ids=["none", "ro-folder", "ro-mount", "dot", "first-rw", "groups", "logs"],
)
def test_where_its_log_goes(mounts: list[dict[str, Any]], path: str | None) -> None:
    request = session({"mounts": mounts}, WITH_FOLDERS).request
    assert log_path(request, "run") == path
    work = Work(command="python train.py", timeout=60)
    job = batch_job(request.model_copy(update={"batch": work}), "run")
    assert job == BatchJob("python train.py", 60, path)
    assert batch_job(request, "run") is None


def test_what_is_put_into_its_container() -> None:
    job = BatchJob('echo "$HOME" {x} ünïcode', 60, "/home/work/data/run.log")
    site = SiteSettings(hub_id="h", uid=2000, gid=2001, log_max=1000)
    with tarfile.open(fileobj=io.BytesIO(archive(batch_entries(job, site)))) as tar:
        members = {member.name: member for member in tar}
        file = tar.extractfile("opt/backendai/batch/job.json")
        assert file is not None
        written = json.load(file)
    assert written["command"] == job.command
    assert (written["timeout_seconds"], written["log_path"]) == (60, job.log_path)
    assert written["log_max"] == 1000
    assert f"{RUNNER[3]}/__main__.py".lstrip("/") in members
    assert RUNNER[4].lstrip("/") in members
    users = {name for name, member in members.items() if member.uid}
    assert users == {"opt/backendai/batch/state", "opt/backendai/batch/output"}
    assert {members[name].uid for name in users} == {2000}
    assert not [name for name in members if "pycache" in name]
    assert not any(member.mode & 0o022 for member in members.values())
