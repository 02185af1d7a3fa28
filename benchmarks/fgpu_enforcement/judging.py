"""How a try is judged: what it reached, what the share allows, and that its control succeeded.

A case is `held` only where something happened: its `control`, the same program within the share,
must have succeeded, and the try itself must have been allowed less, or been refused by the driver.
Else it was not tried, and says why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bench import Bench, NotTried, Session

from jupyterhub_backendai.model.slots import MIB

Axis = Literal["memory", "compute", "faults", "access", "told"]
Verdict = Literal["held", "broken", "not tried"]
PIPE = "CUDA_MPS_PIPE_DIRECTORY"
LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
PERCENT = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
NOWHERE = "GPU-ffffffff-ffff-4fff-bfff-ffffffffffff"  # a GPU that no container can see
PROCESSES = 3
POLL = 0.1  # seconds between two readings from outside


@dataclass(frozen=True)
class Reached:
    """What came of a case: a figure, what the share allows of it, and in which unit."""

    verdict: Verdict
    reached: float | None = None
    allowed: float | None = None
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Case:
    """One way round a share. `wilful`: no program goes it by chance, so that a label `soft` stands
    although it leads somewhere."""

    name: str
    axis: Axis
    tries: str
    wilful: bool
    run: Callable[[Bench], Awaitable[Reached]]


def beyond(share: int) -> int:
    """Bytes that are well above a share."""
    return share + max(share // 8, 512 * MIB)


async def works(session: Session, **job: Any) -> None:
    """The control: half of the share can be had. Raises `NotTried`.

    For a while it is asked again: a GPU may be recovering from a fault.
    """
    until = time.monotonic() + session.bench.patience
    while True:
        found = await session.run({"do": "memory", "most": session.memory // 2, **job})
        if found.get("bytes", 0) >= session.memory // 2:
            return
        if time.monotonic() >= until:
            why = found.get("error") or found.get("refused") or "no answer"
            raise NotTried(f"not even half of the share can be had: {why}")
        await asyncio.sleep(0.5)


def judged(found: Mapping[str, Any], allowed: int, note: str = "") -> Reached:
    """By the bytes that were had. Raises `NotTried` where the attacker itself failed."""
    error = str(found.get("error", ""))
    if error and not error.startswith("cu"):  # what the driver refused begins with its call
        raise NotTried(error)
    reached = int(found.get("bytes", 0))
    told = "; ".join(part for part in (note, error or str(found.get("refused", ""))) if part)
    verdict: Verdict = "broken" if reached > allowed else "held"
    return Reached(verdict, reached, allowed, "bytes", told)


async def more(bench: Bench, **job: Any) -> Reached:
    """As much memory as can be had, after the control."""
    session = await bench.first()
    await works(session)
    found = await session.run({"do": "memory", "most": beyond(session.memory), **job})
    result = judged(found, session.memory)
    if not result.reached:  # it was refused, and not because nothing works any more
        await works(session)
    return result


async def has_mps(session: Session, *names: str) -> None:
    for name in names:
        if name not in session.gpu.environment:
            raise NotTried(f"a session of this provider does not have {name}")
