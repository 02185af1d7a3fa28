"""Ways to more memory than a share's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath
from typing import Any

from bench import Bench, NotTried, Session
from judging import PIPE, POLL, PROCESSES, Reached, beyond, has_mps, judged, more, works
from machines import INSIDE

from jupyterhub_backendai.gpu.providers.mps_control import PROGRAM
from jupyterhub_backendai.model.slots import GIB, MIB

CONTEXT = 768 * MIB  # the driver's own for one program: 0.25 to 0.5 GiB have been measured


def allocating(**job: Any) -> Callable[[Bench], Awaitable[Reached]]:
    async def run(bench: Bench) -> Reached:
        return await more(bench, **job)

    return run


def with_mps(**variables: str | None) -> Callable[[Bench], Awaitable[Reached]]:
    """Memory, with variables of MPS changed; where the session has none there is no such way."""

    async def run(bench: Bench) -> Reached:
        session = await bench.first()
        needed = [name for name, value in variables.items() if value is None] or [PIPE]
        await has_mps(session, *needed)
        return await more(bench, env=dict(variables))

    return run


async def wrong_pipes(bench: Bench) -> Reached:
    session = await bench.first()
    await has_mps(session, PIPE)
    own = PurePosixPath(session.gpu.environment[PIPE])
    places = [f"{own}-not-there", "/tmp", str(own.parent), str(own.parent.parent)]
    found = [await more(bench, env={PIPE: place}) for place in places]
    best = max(range(len(found)), key=lambda number: found[number].reached or 0)
    worst = found[best]
    return Reached(worst.verdict, worst.reached, worst.allowed, "bytes", f"by {places[best]}")


async def processes(bench: Bench) -> Reached:
    session = await bench.first()
    await works(session)
    each = session.memory * 9 // 10
    found = await session.run({"do": "memory", "most": each, "processes": PROCESSES})
    if found.get("bytes", 0) < each // 2:
        raise NotTried(f"not one of the processes had its part: {found}"[:300])
    return judged(found, session.memory, f"{PROCESSES} processes")


async def own_device_named(bench: Bench) -> Reached:
    session = await bench.first()
    own = {"CUDA_VISIBLE_DEVICES": session.granted[0].uuid}
    await works(session, env=own)
    return await more(bench, env=own)


async def unheld(bench: Bench) -> Reached:
    return await more(bench, do="unheld", clean=True)


async def managed(bench: Bench) -> Reached:
    """By what lies on the device, as seen from outside: what is over may be moved off it."""
    session = await bench.first()
    uuid = session.granted[0].uuid

    async def peak(most: int) -> tuple[int, dict[str, Any]]:
        before = highest = await bench.machine.used(uuid)
        job = {"do": "memory", "managed": True, "most": most, "hold": 1.0}
        work = asyncio.ensure_future(session.run(job))
        while not work.done():
            highest = max(highest, await bench.machine.used(uuid))
            await asyncio.wait({work}, timeout=POLL)
        return highest - before, await work

    within, found = await peak(session.memory // 2)
    if within < session.memory // 4:
        raise NotTried(
            "managed memory within the share is not seen on the device: "
            + str(found.get("error") or found.get("refused") or f"{within} bytes")
        )
    allowed = session.memory + CONTEXT
    resident, found = await peak(session.memory + max(session.memory // 4, 2 * GIB))
    touched = found.get("bytes")
    note = f"written to: {touched} bytes" if touched is not None else str(found.get("error"))
    return Reached(
        "broken" if resident > allowed else "held", resident, allowed, "bytes on the device", note
    )


async def admin(bench: Bench) -> Reached:
    session = await bench.first()
    await has_mps(session, PIPE)
    if bench.machine.control_program() is None:
        raise NotTried(f"there is no {PROGRAM} to try it with")
    await works(session)
    commands = _commands(session)
    found = await session.run({
        "do": "admin", "control": f"{INSIDE}/{PROGRAM}", "commands": commands,
    })  # fmt: skip
    said = found.get("commands", [])
    if not said or all(one["code"] in {-1, 126, 127} for one in said):
        raise NotTried(f"the program does not run in the container: {found}")
    taken = [one for one in said if one["code"] == 0]
    after = await session.run({"do": "memory", "most": beyond(session.memory)})
    result = judged(after, session.memory)
    words = "; ".join(f"{one['code']}: {one['said']}" for one in said)
    return Reached(
        "broken" if taken else result.verdict, result.reached, result.allowed, "bytes",
        f"{len(taken)} of {len(said)} commands were taken ({words})"[:500],
    )  # fmt: skip


def _commands(session: Session) -> list[dict[str, Any]]:
    """What would raise the session's own limits, in the words of its interface of MPS."""
    own = PurePosixPath(session.gpu.environment[PIPE])
    if session.granted[0].provider == "mps2":
        return [
            {"arguments": [], "text": "set_default_active_thread_percentage 100\n"},
            {"arguments": [], "text": "set_default_device_pinned_mem_limit 0 1024G\n"},
        ]
    at = ["-p", "3", "namespace", "set", own.name, f"--server={own.parent.name}"]
    return [
        {"arguments": [*at, "--active-thread-percentage=100"]},
        {"arguments": [*at, "--pinned-memory-limit=1024G"]},
    ]


async def own_cgroup(bench: Bench) -> Reached:
    session = await bench.first()
    if not session.gpu.cgroup_parent:
        raise NotTried("this provider holds nothing by cgroups")
    await works(session)
    found = await session.run({"do": "cgroup"})
    if not found.get("tried"):
        raise NotTried("the container sees no dmem.max")
    after = await session.run({"do": "memory", "most": beyond(session.memory)})
    return judged(after, session.memory, str(found["tried"]))


async def restart(bench: Bench) -> Reached:
    session = await bench.first()
    await works(session)
    await bench.start(session.container, again=True)
    return await more(bench)
