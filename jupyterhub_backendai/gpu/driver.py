"""NVIDIA's library behind three kinds of failure: of one question, of a device, of the driver.

The library's own errors do not leave this module. Everything here blocks, and is for one thread.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any, TypeVar

from .state import Answer, Failed, Known, NotSupported

T = TypeVar("T")
log = logging.getLogger(__name__)

# An older driver, a device or a mode that does not have what was asked; nothing is wrong.
_NOT_SUPPORTED = frozenset(
    {"NotSupported", "FunctionNotFound", "ArgumentVersionMismatch", "Deprecated"}
)
# The device cannot be used at all.
_DEVICE = frozenset({"GpuIsLost", "GpuNotFound", "ResetRequired"})
# Handles are worth nothing any more: the library was shut down, or the driver below it replaced.
_DRIVER = frozenset({"Uninitialized", "DriverNotLoaded", "LibRmVersionMismatch"})


class Absent(Enum):
    """Why a machine has no GPUs now."""

    BINDING = "binding"
    LIBRARY = "library"
    DRIVER = "driver"
    DEVICES = "devices"
    CHANGED = "changed"
    HANGS = "hangs"
    FAILED = "failed"

    @property
    def trouble(self) -> bool:
        """Whether there may well be GPUs that cannot be reached; else there simply are none."""
        return self in {Absent.CHANGED, Absent.HANGS, Absent.FAILED}


@dataclass(frozen=True, slots=True)
class Absence:
    """Why there are no GPUs: the kind for programs, the sentence for an admin."""

    kind: Absent
    reason: str


class NoGpus(Exception):
    """NVML cannot be used now."""

    def __init__(self, kind: Absent, reason: str) -> None:
        super().__init__(reason)
        self.absence = Absence(kind, reason)


class NvmlFailure(Exception):
    """A call failed; `name` is NVML's own, without the prefix."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class DeviceLost(NvmlFailure):
    """The device that was asked cannot be used any more."""


class DriverChanged(NvmlFailure):
    """The driver under the library is gone or another one."""


class Driver:
    """The library, loaded and initialised when it is needed, and anew when that may help."""

    def __init__(self, renew_after: float) -> None:
        self.starts = 0
        self._renew_after = renew_after
        self._started = 0.0  # by the monotonic clock
        self._nvml: ModuleType | None = None
        self._running = False
        self._stale = False

    def read(self, work: Callable[[], T]) -> T:
        """The result of `work`, which may call and ask.

        A driver that changed under it is initialised anew, once. Raises `NoGpus`.
        """
        if self._stale and time.monotonic() - self._started >= self._renew_after:
            self.stop()
        self._start()
        try:
            return work()
        except DriverChanged as change:
            log.warning("The GPU driver changed (%s): initialising it anew", change.name)
        self.stop()
        self._start()
        try:
            return work()
        except DriverChanged as change:
            self.stop()
            raise _absence(change.name) from change

    def renew(self) -> None:
        """Has a later reading begin with a new initialisation, which is how a GPU comes back.

        Not before `renew_after` seconds since the last: where nothing else holds the driver
        it takes seconds.
        """
        self._stale = True

    def stop(self) -> None:
        """Shuts the library down, if it runs."""
        if not self._running:
            return
        self._running = self._stale = False
        try:
            self.call("nvmlShutdown")
        except NvmlFailure as failure:
            # What it would have released went with the driver.
            log.info("Shutting NVML down: %s", failure.name)

    def _start(self) -> None:
        if self._running:
            return
        self._nvml = _binding()
        try:
            self.call("nvmlInit")
        except NvmlFailure as failure:
            raise _absence(failure.name) from failure
        self._running = True
        self._started = time.monotonic()
        self.starts += 1

    def call(self, name: str, *arguments: object) -> Any:
        """What the binding's function returns. Raises `NvmlFailure`, or what it means."""
        assert self._nvml is not None, "outside of read()"
        function = getattr(self._nvml, name, None)
        if function is None:  # an older binding
            raise NvmlFailure("FunctionNotFound")
        try:
            return function(*arguments)
        except self._nvml.NVMLError as error:
            raise _failure(_name(error)) from error
        except UnicodeDecodeError as error:  # a name that the driver garbled
            raise NvmlFailure(type(error).__name__) from error

    def ask(self, convert: Callable[[Any], T], name: str, *arguments: object) -> Answer[T]:
        """The call's result by `convert`, or why there is none.

        Raises `DeviceLost` and `DriverChanged`: after these no other question has an answer.
        """
        try:
            return Known(convert(self.call(name, *arguments)))
        except (DeviceLost, DriverChanged):
            raise
        except NvmlFailure as failure:
            return answer_of(failure)

    def struct(self, name: str, **fields: object) -> Any | None:
        """One of the binding's structures, None in a binding that does not have it."""
        kind = getattr(self._nvml, name, None)
        return kind and kind(**fields)


def answer_of(failure: NvmlFailure) -> NotSupported | Failed:
    """Which kind of no value a failure is."""
    if failure.name in _NOT_SUPPORTED:
        return NotSupported(failure.name)
    return Failed(failure.name)


def _binding() -> ModuleType:
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        reason = "The Python package nvidia-ml-py is not installed."
        raise NoGpus(Absent.BINDING, reason) from error


def _name(error: Any) -> str:
    """`GpuIsLost` for NVMLError_GpuIsLost. The binding has no class for codes it does not know,
    and none for 0, which it raises where a list is empty."""
    name = type(error).__name__
    if name != "NVMLError":
        return str(name).removeprefix("NVMLError_")
    return f"Code{error.value}" if error.value else "Success"


def _failure(name: str) -> NvmlFailure:
    if name in _DRIVER:
        return DriverChanged(name)
    return DeviceLost(name) if name in _DEVICE else NvmlFailure(name)


def _absence(name: str) -> NoGpus:
    if name == "LibraryNotFound":
        return NoGpus(Absent.LIBRARY, "There is no NVIDIA driver library on this machine.")
    if name == "DriverNotLoaded":
        return NoGpus(Absent.DRIVER, "The NVIDIA driver is installed and not loaded.")
    if name == "LibRmVersionMismatch":
        reason = (
            "The NVIDIA driver was replaced: its library and its kernel module are of two"
            " versions. Restart this service; if that does not help, the machine."
        )
        return NoGpus(Absent.CHANGED, reason)
    return NoGpus(Absent.FAILED, f"The NVIDIA driver does not work: {name}.")
