"""A batch session's job: what its container is told, and what became of its command.

The container runs `singleuser/runner` with the job; see there for how it is done inside.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, ValidationError

from ..model.request import SessionRequest

GRACE = 10  # seconds from SIGTERM to SIGKILL for a command that took too long
LINGER = 60  # seconds that the server stays after its command when nobody ends the session
TIMED_OUT = -2  # the exit code of a command that took too long, whatever it made of its SIGTERM
MAX_STATE = 64 * 1024  # bytes of a file of the state; the real ones have two hundred
LOG_FOLDER = ".logs"  # the folder that logs go to, where it is mounted


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A command for `/bin/sh -c`, how long it may take (None: as long as it likes), and the file
    in the container that gets its output too."""

    command: str
    timeout_seconds: int | None = None
    log_path: str | None = None


class Ending(str, Enum):
    """How a command ended. The first six are the runner's words, the others ours."""

    FINISHED = "finished"  # exit code 0
    FAILED = "failed"  # any other
    KILLED = "killed"  # by a signal
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    TERMINATED = "terminated"  # its container was stopped
    INTERRUPTED = "interrupted"  # its container ended without a word of it
    NEVER_STARTED = "never_started"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command. `exit_code` is 128 + signal for one that a signal killed,
    `TIMED_OUT` for one that took too long, None where nothing is known or it never ran."""

    ending: Ending
    exit_code: int | None = None
    signal: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def succeeded(self) -> bool | None:
        """None where it was ended from outside, so that nothing can be said."""
        if self.ending in {Ending.TERMINATED, Ending.INTERRUPTED, Ending.NEVER_STARTED}:
            return None
        return self.ending is Ending.FINISHED


def _utc(at: datetime) -> datetime:
    try:
        return at.astimezone(timezone.utc)
    except OverflowError as error:  # at the ends of the calendar
        raise ValueError(str(error)) from error


_Moment = Annotated[AwareDatetime, AfterValidator(_utc)]


class _Started(BaseModel):
    at: _Moment


class _Result(BaseModel):
    exit_code: Annotated[int, Field(ge=0, le=255)] | None
    signal: Annotated[int, Field(ge=1, le=127)] | None
    started_at: _Moment | None
    ended_at: _Moment
    timed_out: bool
    reason: Ending


def batch_job(request: SessionRequest, name: str) -> BatchJob | None:
    """The job of a session of that name; None for one without a command."""
    if request.batch is None:
        return None
    return BatchJob(request.batch.command, request.batch.timeout, log_path(request, name))


def log_path(request: SessionRequest, name: str) -> str | None:
    """The file that gets the output of a session's command: in the folder `.logs` where it is
    mounted, else in the first writable folder whose name does not begin with a dot."""
    places = [mount for mount in request.mounts if mount.permission == "rw"]
    logs = [mount for mount in places if mount.folder == LOG_FOLDER]
    plain = [mount for mount in places if not mount.folder.rsplit("/", 1)[-1].startswith(".")]
    for mount in (*logs, *plain):
        return f"{mount.target}/{name}.log"
    return None


def job_file(job: BatchJob, log_max: int) -> bytes:
    """What the runner reads. `log_max` bounds what the container keeps of the output, in bytes."""
    more = {"grace_seconds": GRACE, "linger_seconds": LINGER, "log_max": log_max}
    return json.dumps({**asdict(job), **more}).encode()


def started_at(started: bytes | None) -> datetime | None:
    """When the command began, from the runner's note; None where there is none to be read."""
    try:
        return _Started.model_validate_json(started).at if started else None
    except ValidationError:
        return None


def is_result(result: bytes | None) -> bool:
    """Whether this may be the runner's word of the command's end."""
    return _result(result) is not None


def _result(result: bytes | None) -> _Result | None:
    try:
        return _Result.model_validate_json(result) if result else None
    except ValidationError:
        return None


def outcome_of(started: bytes | None, result: bytes | None, out_of_memory: bool) -> Outcome:
    """The outcome that a container which runs no more, or a command that is over, has left.

    Both files are written as the session's user, who may have put anything there: what cannot be
    read is not known. `out_of_memory` is what the engine says of the container.
    """
    begun = started_at(started)
    found = _result(result)
    if found is None:
        if started is None and result is None:
            return Outcome(Ending.NEVER_STARTED)
        ending = Ending.OUT_OF_MEMORY if out_of_memory else Ending.INTERRUPTED
        return Outcome(ending, started_at=begun)
    return Outcome(
        ending=found.reason,
        exit_code=TIMED_OUT if found.timed_out else found.exit_code,
        signal=found.signal,
        started_at=found.started_at,
        ended_at=found.ended_at,
    )
