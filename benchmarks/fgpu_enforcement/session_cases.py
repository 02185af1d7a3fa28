"""Two sessions on one GPU, and what a session can reach that is not its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bench import Bench, NotTried, Session
from judging import NOWHERE, PIPE, POLL, Reached, beyond, has_mps, judged, works

LATEST = 30.0  # seconds for two programs to be ready to compute
# Of throughput: what may be measured above and below a share that is held.
ABOVE, BELOW = 1.1, 0.8
POINT = 1.0  # per cent


Jobs = Callable[[dict[str, float]], list[tuple[Session, dict[str, Any]]]]


async def together(bench: Bench, jobs: Jobs) -> list[dict[str, Any]]:
    """The answers of jobs at one time. `jobs` is given that time, as `at` and `seconds`; whoever
    is not ready by then has all of them try again. Raises `NotTried`."""
    lead = bench.lead
    while lead <= LATEST:
        window = {"at": time.time() + lead, "seconds": bench.seconds}
        found = await asyncio.gather(*(session.run(job) for session, job in jobs(window)))
        if not any(_late(one) for one in found):
            return found
        lead *= 2
    raise NotTried("two programs were not ready to compute at the same time")


def _late(found: Mapping[str, Any]) -> bool:
    return any(one.get("late") for one in (found, *found.get("processes", ())))


async def race(bench: Bench, first: Mapping[str, Any]) -> Reached:
    """Both sessions compute at once: what part of it the first one gets. Raises `NotTried`."""
    a, b = await bench.first(), await bench.second()
    await works(a)
    await works(b)
    found = await together(
        bench,
        lambda window: [
            (a, {"do": "compute", **window, **first}),
            (b, {"do": "compute", **window}),
        ],
    )
    rates = [float(one.get("rate", 0)) for one in found]
    if not all(rates):
        raise NotTried(f"one of the two did not compute: {found}"[:300])
    weights = [_weight(bench, session) for session in (a, b)]
    allowed = 100 * weights[0] / sum(weights)
    reached = 100 * rates[0] / sum(rates)
    held = BELOW * allowed - POINT <= reached <= ABOVE * allowed + POINT
    seen = found[0].get("multiprocessors")
    note = f"multiprocessors that it is told of: {seen}" if seen else ""
    return Reached("held" if held else "broken", reached, allowed, "% of both", note)


def _weight(bench: Bench, session: Session) -> int:
    """What a session's share of computing counts; of parts of a GPU their multiprocessors."""
    granted = session.granted[0]
    if granted.slot != "mig":
        return granted.percent
    devices = (bench.device, *bench.others)
    return next((one.multiprocessors or 0 for one in devices if one.uuid == granted.uuid), 0)


def racing(*names: str, **job: Any) -> Callable[[Bench], Awaitable[Reached]]:
    async def run(bench: Bench) -> Reached:
        await has_mps(await bench.first(), *names)
        return await race(bench, job)

    return run


# ---- faults -------------------------------------------------------------------------------------


async def neighbours_fault(bench: Bench) -> Reached:
    a, b = await bench.first(), await bench.second()
    await works(a)
    (alone,) = await together(bench, lambda window: [(b, {"do": "compute", **window})])
    if not alone.get("rate"):
        raise NotTried(f"the neighbour does not compute by itself: {alone}"[:300])
    found, other = await together(
        bench,
        lambda window: [
            (b, {"do": "compute", **window}),
            (a, {"do": "fault", "at": window["at"] + window["seconds"] / 2}),
        ],
    )
    if not other.get("fault"):
        raise NotTried(f"there was no fault: {other}"[:300])
    if error := found.get("error"):
        if not error.startswith("cu"):  # it is the attacker that failed, and not the driver
            raise NotTried(error)
        return Reached("broken", 0, 100, "% of its rate", f"{other['fault']}; neighbour: {error}")
    if not found["begun"] < other["when"] < found["ended"]:
        raise NotTried("the fault was not while the neighbour computed")
    reached = 100 * found["rate"] / alone["rate"]
    return Reached("held", reached, 100, "% of its rate", str(other["fault"]))


async def fault_window(bench: Bench) -> Reached:
    session = await bench.first()
    await has_mps(session, PIPE)
    await works(session)
    found = await session.run({"do": "fault"})
    if not found.get("fault"):
        raise NotTried(f"there was no fault: {found}"[:300])
    after = await session.run({
        "do": "again", "seconds": bench.seconds, "allowed": session.memory,
        "most": beyond(session.memory), "env": {PIPE: None},
    })  # fmt: skip
    result = judged(after, session.memory, f"{after.get('tries', 0)} tries")
    await works(session)
    return result


# ---- access -------------------------------------------------------------------------------------


async def other_devices(bench: Bench) -> Reached:
    session = await bench.first()
    found = await session.run({"do": "devices", "values": _values(bench)})
    own = {_digits(one.uuid) for one in session.granted}
    seen = found.get("devices", {})
    if not own & set(seen):
        raise NotTried(f"the session does not see its own GPU: {found}"[:300])
    if not bench.others:
        raise NotTried("the machine has one GPU only")
    foreign = {uuid: values for uuid, values in seen.items() if uuid not in own}
    nodes = found.get("nodes", [])[len(own) :]
    number = max(len(foreign), len(nodes))
    note = f"by CUDA_VISIBLE_DEVICES {foreign}, nodes {nodes}" if number else ""
    return Reached("broken" if number else "held", number, 0, "devices of others", note)


async def no_gpu(bench: Bench) -> Reached:
    control = await (await bench.first()).run({"do": "devices", "values": []})
    if not control.get("devices"):
        raise NotTried(f"a session with a GPU does not see it: {control}"[:300])
    session = await bench.without()
    found = await session.run({"do": "devices", "values": _values(bench)})
    if "devices" not in found:
        raise NotTried(str(found.get("error")))
    number = max(len(found["devices"]), len(found["nodes"]))
    why = found["why"]
    if not number and not why.startswith(("cu", "no libcuda")):
        raise NotTried(f"nobody said that there is none: {why}")
    note = "; ".join(filter(None, (f"NVIDIA_VISIBLE_DEVICES={found['variable']}", why)))
    return Reached("broken" if number else "held", number, 0, "devices", note)


def _values(bench: Bench) -> list[str]:
    indices = [str(number) for number in range(16)]
    uuids = [one.uuid for one in (bench.device, *bench.others)]
    return [*indices, ",".join(indices), *uuids, "all", NOWHERE]


def _digits(uuid: str) -> str:
    """A UUID's 32 digits, which CUDA and the driver's own list have in common."""
    return uuid.partition("-")[2].replace("-", "").lower()


async def setuid(bench: Bench) -> Reached:
    """The same program where a container may gain privileges, as no session may: there it works."""
    session = await bench.first()
    settings = await bench.settings("0" * 32)
    container = await bench.create(settings, privileges=True)
    await bench.start(container)
    control = await _identity(bench, container)
    if control.get("euid") != 0:
        raise NotTried(f"such a program is not root in any container here: {control}"[:300])
    found = await _identity(bench, session.container)
    if "euid" not in found or not found["setuid"] or found["nosuid"]:
        raise NotTried(f"the program is not there as it was put: {found}"[:300])
    held = found["euid"] == found["uid"]
    return Reached("held" if held else "broken", found["euid"], found["uid"], "user id")


async def _identity(bench: Bench, container: str) -> dict[str, Any]:
    program = await bench.setuid_python(container)
    return await bench.run(container, {"do": "identity", "file": program, "program": program})


async def neighbours_pipe(bench: Bench) -> Reached:
    a, b = await bench.first(), await bench.second()
    await has_mps(a, PIPE)
    await has_mps(b, PIPE)
    own, theirs = a.gpu.environment[PIPE], b.gpu.environment[PIPE]
    if own == theirs:
        raise NotTried("with the older MPS all sessions of a GPU have one directory")
    found = await a.run({"do": "pipes", "paths": [own, theirs]})
    if own not in found.get("there", ()):
        raise NotTried(f"the session does not see its own directory: {found}"[:300])
    seen = theirs in found["there"]
    return Reached("broken" if seen else "held", int(seen), 0, "directories of others")


# ---- what programs and admins are told ----------------------------------------------------------


async def told_size(bench: Bench) -> Reached:
    session = await bench.first()
    found = await session.run({"do": "memory", "most": session.memory // 2})
    if not found.get("total"):
        raise NotTried(f"no answer: {found}"[:300])
    larger = found["total"] > session.memory * 1.01
    return Reached("broken" if larger else "held", found["total"], session.memory, "bytes")


async def attributed(bench: Bench) -> Reached:
    sessions = [await bench.first(), await bench.second()]
    containers = {one.container for one in sessions}
    work = asyncio.ensure_future(
        together(bench, lambda window: [(one, {"do": "compute", **window}) for one in sessions])
    )
    known: set[str] = set()
    while not work.done():
        usage = await bench.gpus.usage(containers)
        known |= {one.container for one in usage.containers if one.busy} & containers
        await asyncio.wait({work}, timeout=POLL)
    if not all(one.get("rate") for one in await work):
        raise NotTried("one of the two did not compute")
    missing = len(known) < len(containers)
    return Reached("broken" if missing else "held", len(known), 2, "sessions known by their use")
