"""GPUs that a session could not be given a moment ago: not offered again at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ..model.gpus import GpuDevice
from .errors import GpuError

AGAIN_AFTER = 5 * 60.0  # seconds


class Faults:
    """What went wrong when GPUs were made ready, for as long as they are not offered because of it.

    A start that is tried again would be given the same GPU. `clock` is in seconds and never goes
    back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[str, tuple[float, str]] = {}  # until when and why, by UUID

    def note(self, devices: Iterable[str], error: GpuError) -> None:
        """These devices (UUIDs) could not be given just now."""
        reason = (
            f"A session could not be given this GPU at {time.strftime('%H:%M')}: "
            f"{str(error).rstrip('.')}. It is offered again {AGAIN_AFTER / 60:g} minutes after."
        )
        until = self._clock() + AGAIN_AFTER
        self._found.update((uuid, (until, reason)) for uuid in devices)

    def forget(self, devices: Iterable[str]) -> None:
        """These devices (UUIDs) were given."""
        for uuid in devices:
            self._found.pop(uuid, None)

    def marked(self, devices: Iterable[GpuDevice]) -> tuple[GpuDevice, ...]:
        """The devices, those not available that have such a fault now."""
        now = self._clock()
        self._found = {uuid: one for uuid, one in self._found.items() if one[0] > now}
        return tuple(self._marked(device) for device in devices)

    def _marked(self, device: GpuDevice) -> GpuDevice:
        if device.uuid not in self._found or not device.available:
            return device
        _, reason = self._found[device.uuid]
        return device.model_copy(update={"available": False, "reason": reason})
