"""Whether a share of a GPU holds: small attackers in sessions' containers, one for each way round.

    python benchmarks/fgpu_enforcement/run.py [--provider mps] [--share 1 --shares-per-gpu 5]
        [--image IMAGE] [--device GPU-…] [--only CASE …] [--json] [--list]

As root, on a machine with a GPU that nobody uses, Docker and the NVIDIA container toolkit; no Hub.
The image needs Python 3.8 or newer and nothing else. README.md beside this says what each case
means.

The exit code is 0 where every label `hard` stands, 1 where one was broken, 2 where nothing could
be tried, 130 after Ctrl-C. No GPU is reset and MIG stays as it is; compute mode, MPS and Docker
are left as they were found.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import signal
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench import AGENT, Bench, NotTried
from cases import CASES
from docker.errors import APIError
from judging import Case, Reached
from machines import FakeMachine, Machine
from report import AXES, as_json, line, listing, standing

from jupyterhub_backendai.engine.base import AgentUnreachable, EngineError
from jupyterhub_backendai.engine.docker import AgentConfig, DockerHost
from jupyterhub_backendai.gpu import ComputeMode, Inventory, Known, known
from jupyterhub_backendai.gpu.errors import GpuError
from jupyterhub_backendai.gpu.providers.mps_control import ControlFailed
from jupyterhub_backendai.gpu.writes import DriverWrites
from jupyterhub_backendai.model.gpus import GpuDevice, GpuRule
from jupyterhub_backendai.model.slots import format_thousandths

PROVIDERS = ("auto", "mps", "mps2", "memory", "whole", "mig", "advisory")
NOTHING_TRIED, INTERRUPTED = 2, 130


class CannotRun(Exception):
    """Why nothing can be tried here, for who runs it."""


@dataclass(frozen=True)
class Before:
    """A GPU as it was found."""

    uuid: str
    mode: ComputeMode | None


def main() -> None:
    """The command."""
    arguments = _arguments()
    if arguments.list:
        print(listing())
        return
    try:
        sys.exit(asyncio.run(_interruptible(arguments)))
    except CannotRun as reason:
        print(f"Nothing was tried: {reason}", file=sys.stderr)
        sys.exit(NOTHING_TRIED)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--provider", choices=PROVIDERS, default="auto", help="how the GPU is shared (%(default)s)")
    add("--share", type=int, default=1, help="shares of who attacks (%(default)s)")
    add("--shares-per-gpu", type=int, default=5, help="shares of a GPU (%(default)s)")
    add("--device", default="", help="how the UUID of the device begins; else the first")
    add("--image", default="backendai-demo:latest", help="an image with python3 (%(default)s)")
    add("--seconds", type=float, default=4.0, help="of one measurement (%(default)s)")
    add("--only", nargs="+", metavar="CASE", help="these cases alone")
    add("--json", action="store_true", help="everything as JSON in the last line")
    add("--list", action="store_true", help="say what is tried, and do nothing")
    add("--fake", type=Path, metavar="DIR", help="fake libraries, for tests of this script")
    arguments = parser.parse_args()
    names = {case.name for case in CASES}
    if unknown := set(arguments.only or ()) - names:
        parser.error(f"there is no case {', '.join(sorted(unknown))}; see --list")
    if not 0 < arguments.share <= arguments.shares_per_gpu:
        parser.error("--share must be at least 1 and at most --shares-per-gpu")
    return arguments


async def _interruptible(arguments: argparse.Namespace) -> int:
    """Ctrl-C ends the run and not its tidying up."""
    work = asyncio.ensure_future(_run(arguments))
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def interrupt() -> None:
        for number in numbers:  # once: the tidying up goes on to its end
            loop.add_signal_handler(number, lambda: None)
        work.cancel()

    for number in numbers:
        loop.add_signal_handler(number, interrupt)
    try:
        return await work
    except asyncio.CancelledError:
        print("Interrupted; what was made is removed.", file=sys.stderr)
        return INTERRUPTED


async def _run(arguments: argparse.Namespace) -> int:
    machine = FakeMachine(arguments.fake) if arguments.fake else Machine()
    if not machine.root:
        raise CannotRun("limits of a GPU are root's to set. Run it as root.")
    inventory = await machine.nvml.inventory()
    if inventory.absence is not None:
        raise CannotRun(inventory.absence.reason)
    info = await _engine(arguments.image)
    gpus = machine.gpus(_rule(arguments), older=arguments.provider == "mps2")
    gpus.engine_says(info)
    try:
        device, others = _choose(arguments, await gpus.devices("default"))
        before = await _idle(machine, inventory, device)
        amount = 1000 * arguments.share if device.slot == "fgpu" else device.capacity
        bench = Bench(
            machine, gpus, device, others,
            image=arguments.image, amount=amount, seconds=arguments.seconds,
        )  # fmt: skip
        bench.host.says = info
        head = _head(arguments, machine, inventory, device, amount)
        _print_head(head)
        try:
            results = await _try_all(bench, arguments.only)
        finally:
            await _tidy(bench, machine, before)
    finally:
        await gpus.close()
    return _report(arguments, head, results, device)


async def _engine(image: str) -> dict[str, Any]:
    """What Docker says of itself. Raises `CannotRun`."""
    host = DockerHost(AgentConfig(AGENT), "redteam", "run")
    try:
        info = await host.info()
        await host.image(image)
    except (AgentUnreachable, EngineError, APIError) as error:
        raise CannotRun(str(error)) from error
    if not host.local:
        raise CannotRun("Docker is on another machine. Run it on the machine with the GPU.")
    return info


def _rule(arguments: argparse.Namespace) -> GpuRule:
    """How an admin would offer the GPU."""
    if arguments.provider in {"whole", "mig"}:
        return GpuRule()
    provider = "mps" if arguments.provider == "mps2" else arguments.provider
    return GpuRule(shares_per_gpu=arguments.shares_per_gpu, provider=provider)


def _choose(
    arguments: argparse.Namespace, offered: tuple[GpuDevice, ...]
) -> tuple[GpuDevice, tuple[GpuDevice, ...]]:
    """The device that is tried, and all others. Raises `CannotRun`."""
    wanted = arguments.provider
    fitting = [
        one for one in offered
        if one.uuid.startswith(arguments.device)
        and (wanted == one.provider or (wanted == "auto" and one.slot == "fgpu"))
    ]  # fmt: skip
    available = [one for one in fitting if one.available]
    if not available:
        there = ", ".join(f"{one.uuid} as {one.provider}" for one in offered) or "nothing"
        why = next((one.reason for one in fitting), f"this machine offers {there}.")
        raise CannotRun(f"no GPU can be had as {wanted}: {why}")
    device = available[0]
    return device, tuple(one for one in offered if one.uuid != device.uuid)


async def _idle(machine: Machine, inventory: Inventory, device: GpuDevice) -> Before:
    """The GPU as it is. Raises `CannotRun` where somebody uses it."""
    gpu = device.parent or device.uuid
    if daemons := machine.daemons(gpu):
        raise CannotRun(
            f"an MPS daemon of sessions runs in {daemons[0].pipes}. Stop the Hub, end its sessions "
            "and the daemon, and try again."
        )
    usage = await machine.nvml.usage()
    mine = [one for one in usage.devices if gpu in {one.uuid, one.parent}]
    if any(isinstance(one.processes, Known) and one.processes.value for one in mine):
        raise CannotRun(f"programs run on {gpu}. Try again when nobody uses it.")
    found = inventory.device(gpu)
    return Before(gpu, known(found.compute_mode) if found else None)


async def _try_all(bench: Bench, only: list[str] | None) -> list[tuple[Case, Reached]]:
    results: list[tuple[Case, Reached]] = []
    for case in CASES:
        if only and case.name not in only:
            continue
        try:
            found = await case.run(bench)
        except (NotTried, GpuError, EngineError, APIError) as error:
            found = Reached("not tried", note=str(error))
        results.append((case, found))
        print(line(case, found), flush=True)
    return results


async def _tidy(bench: Bench, machine: Machine, before: Before) -> None:
    """Everything as it was found; what is not is said."""
    left = await bench.close()
    for daemon in machine.daemons(before.uuid):  # none ran before
        try:
            machine.end(daemon)
        except ControlFailed as error:
            left.append(f"the MPS daemon in {daemon.pipes}: {error}")
    inventory = await machine.nvml.inventory()
    device = inventory.device(before.uuid)
    if before.mode is not None and device and known(device.compute_mode) != before.mode:
        try:
            await DriverWrites(machine.nvml).set_compute_mode(before.uuid, before.mode)
        except GpuError as error:
            left.append(str(error))
    for one in left:
        print(f"LEFT BEHIND: {one}", file=sys.stderr)


def _head(
    arguments: argparse.Namespace, machine: Machine, inventory: Inventory, device: GpuDevice,
    amount: int,
) -> dict[str, Any]:  # fmt: skip
    cuda = known(inventory.cuda_version)
    return {
        "fake": machine.note or None,
        "device": device.name,
        "uuid": device.uuid[:12] + "…",
        "driver": known(inventory.driver_version),
        "cuda": ".".join(map(str, cuda)) if cuda else None,
        "kernel": platform.release(),
        "cgroup_v2": inventory.cgroup_v2,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "provider": device.provider,
        "share": format_thousandths(amount),
        "of": format_thousandths(device.capacity),
        "labels": device.enforcement.model_dump(),
        "verified": device.verified,
    }


def _print_head(head: dict[str, Any]) -> None:
    if head["fake"]:
        print(head["fake"])
    labels = ", ".join(f"{axis} {hold}" for axis, hold in head["labels"].items())
    print(
        f"{head['device']} {head['uuid']}, driver {head['driver']}, CUDA {head['cuda']}, "
        f"Linux {head['kernel']}, cgroup {'v2' if head['cgroup_v2'] else 'v1'}, {head['date']}"
    )
    print(f"{head['share']} of {head['of']} by {head['provider']}; labels: {labels}", flush=True)


def _report(
    arguments: argparse.Namespace, head: dict[str, Any], results: list[tuple[Case, Reached]],
    device: GpuDevice,
) -> int:  # fmt: skip
    axes = [standing(axis, results, device.enforcement) for axis in AXES]
    for one in axes:
        print(f"{one.axis:8} {one.claims:6} {one.words}")
    if arguments.json:
        print(as_json(head, results, axes))
    if not any(one.tried for one in axes):
        return NOTHING_TRIED
    return int(any(one.claims == "hard" and not one.stands for one in axes))


if __name__ == "__main__":
    main()
