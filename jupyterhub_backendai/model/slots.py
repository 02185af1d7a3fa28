"""Resource slots as exact integers: thousandths of a core, bytes, thousandths of a share or a GPU.

Binary floats cannot hold 0.1, so sums of shares would drift (0.1 × 3 ≠ 0.3); every amount is an
integer from the moment it is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal

from .errors import Problem, shown

SLOT_NAMES = ("cpu", "mem", "fgpu", "gpu", "mig")
GpuSlot = Literal["fgpu", "gpu", "mig"]
GPU_SLOTS: tuple[GpuSlot, ...] = ("fgpu", "gpu", "mig")  # a session has one of these at most
KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
MAX_AMOUNT = 2**50  # far above any machine, far below what a 64-bit column holds

_UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB, "p": 2**50}
_SIZE = re.compile(
    r"(?P<number>\d{1,15}(?:\.\d{1,9})?|\.\d{1,9})\s*(?:(?P<unit>[kmgtp])i?)?b?",
    re.IGNORECASE | re.ASCII,
)
_DECIMAL = re.compile(r"\d{1,16}(?:\.\d{1,9})?|\.\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Slots:
    """Amounts of what a session holds or an agent has.

    `cpu` in thousandths of a core, `mem` in bytes, `fgpu` in thousandths of a share, `gpu` (whole
    GPUs) and `mig` (MIG devices) in thousandths of one. Shared memory is part of `mem` and so is
    not a slot of its own.
    """

    cpu: int = 0
    mem: int = 0
    fgpu: int = 0
    gpu: int = 0
    mig: int = 0

    def __add__(self, other: Slots) -> Slots:
        return Slots(
            self.cpu + other.cpu, self.mem + other.mem, self.fgpu + other.fgpu,
            self.gpu + other.gpu, self.mig + other.mig,
        )  # fmt: skip

    def __sub__(self, other: Slots) -> Slots:
        return Slots(
            self.cpu - other.cpu, self.mem - other.mem, self.fgpu - other.fgpu,
            self.gpu - other.gpu, self.mig - other.mig,
        )  # fmt: skip

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(
            (("cpu", self.cpu), ("mem", self.mem), ("fgpu", self.fgpu), ("gpu", self.gpu),
             ("mig", self.mig))
        )  # fmt: skip

    @property
    def gpu_slot(self) -> GpuSlot | None:
        """The name of the slot of GPUs of which this has some; None without."""
        return next((name for name in GPU_SLOTS if getattr(self, name)), None)

    def fits(self, free: Slots) -> bool:
        """Whether all of these amounts are within `free`."""
        return (
            self.cpu <= free.cpu
            and self.mem <= free.mem
            and self.fgpu <= free.fgpu
            and self.gpu <= free.gpu
            and self.mig <= free.mig
        )

    def larger(self, other: Slots) -> Slots:
        """The larger of the two, slot by slot."""
        return Slots(**{name: max(amount, getattr(other, name)) for name, amount in self})

    def lacking(self, free: Slots) -> tuple[str, ...]:
        """Names of the slots of which `free` has too little."""
        return tuple(name for name, amount in self if amount > getattr(free, name))

    def floor(self) -> Slots:
        """The same amounts with nothing below zero."""
        return self.larger(Slots())

    def as_dict(self) -> dict[str, int]:
        """Raw integers, for storage."""
        return dict(self)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that somebody may hold at once; None is no limit. Units as in `Slots`."""

    cpu: int | None = None
    mem: int | None = None
    fgpu: int | None = None
    gpu: int | None = None
    mig: int | None = None
    sessions: int | None = None

    def left(self, used: Slots) -> Limits:
        """What remains of each limit beside `used` (never below zero); `sessions` unchanged."""

        def rest(limit: int | None, amount: int) -> int | None:
            return None if limit is None else max(0, limit - amount)

        left = {name: rest(getattr(self, name), amount) for name, amount in used}
        return Limits(**left, sessions=self.sessions)


def _decimal(value: object) -> Decimal | None:
    """`value` as an exact number, or None where it is not one (booleans and NaN are not)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Decimal(value) if abs(value) <= MAX_AMOUNT else None
    if isinstance(value, float):
        value = repr(value)
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        try:
            return Decimal(value.strip())
        except InvalidOperation:  # pragma: no cover - the pattern admits nothing Decimal refuses
            return None
    return None


def _thousandths(value: object, code: str, message: str) -> int:
    number = _decimal(value)
    if number is None or not 0 <= number * 1000 <= MAX_AMOUNT:
        raise Problem(code, message)
    scaled = number * 1000
    if scaled != int(scaled):
        raise Problem(
            "too_fine", f"{shown(number.normalize())} is too fine: use at most three decimals."
        )
    return int(scaled)


def parse_cpu(value: object) -> int:
    """Cores as people write them (`2`, `"0.5"`) in thousandths of a core. Raises `Problem`."""
    return _thousandths(value, "not_a_number", "Cores are a number such as 2 or 0.5.")


def parse_fgpu(value: object) -> int:
    """FGPU shares (`0.5`, `"1.25"`) in thousandths, exactly. Raises `Problem`."""
    return _thousandths(value, "not_a_number", "FGPU is a number such as 1 or 0.5.")


def parse_devices(value: object) -> int:
    """How many GPUs or MIG devices (`2`, `"1"`), in thousandths of one. Raises `Problem`."""
    message = "This is a whole number such as 1 or 2."
    amount = _thousandths(value, "not_a_number", message)
    if amount % 1000:
        raise Problem("not_whole", message)
    return amount


def parse_bytes(value: object) -> int:
    """A size as people write it (`"4g"`, `"4GiB"`, `"512m"`, or a number of bytes) in bytes.

    Units are binary: GB means 2^30 bytes here. Raises `Problem`.
    """
    number: Decimal | None
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        number = None
        if match:
            number = Decimal(match["number"]) * _UNITS[(match["unit"] or "").lower()]
    else:
        number = _decimal(value)
    if number is None or not 0 <= number <= MAX_AMOUNT:
        raise Problem("not_a_size", "A size is a number with a unit, such as 4g, 4GiB or 512m.")
    return int(number)


def _plain(number: Decimal) -> str:
    return format(number.normalize(), "f")


def format_thousandths(amount: int) -> str:
    """`1500` as `"1.5"`, `2000` as `"2"`."""
    return _plain(Decimal(amount) / 1000)


def format_bytes(amount: int) -> str:
    """Bytes in the largest unit that keeps the number at 1 or more: `"4 GB"`, `"512 MB"`.

    At most two decimals, rounded down so that we never promise more than there is.
    """
    for unit, size in (("TB", TIB), ("GB", GIB), ("MB", MIB), ("KB", KIB)):
        if abs(amount) >= size:
            hundredths = abs(amount) * 100 // size
            sign = "-" if amount < 0 else ""
            return f"{sign}{_plain(Decimal(hundredths) / 100)} {unit}"
    return f"{amount} {'byte' if amount == 1 else 'bytes'}"


def format_slot(name: str, amount: int) -> str:
    """An amount with its unit, as sentences use it: `"2 CPU cores"`, `"4 GB of memory"`."""
    if name == "cpu":
        return f"{format_thousandths(amount)} CPU {'core' if amount == 1000 else 'cores'}"
    if name == "mem":
        return f"{format_bytes(amount)} of memory"
    if name == "fgpu":
        return f"{format_thousandths(amount)} FGPU"
    what = "MIG device" if name == "mig" else "whole GPU"
    return f"{format_thousandths(amount)} {what}{'' if amount == 1000 else 's'}"
