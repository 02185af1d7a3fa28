"""What sessions use, as pages show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...model.slots import format_bytes, format_thousandths
from ...model.usage import percent
from ..charts import Amounts, SessionUsage, whole_of
from ..schemas import UsedPercent

TITLES = {
    "cpu": "CPU", "mem": "Memory", "gpu": "GPU", "gpu_mem": "GPU memory",
    "disk_read": "Read", "disk_write": "Written", "net_in": "Received", "net_out": "Sent",
}  # fmt: skip
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Bar:
    """What is used of something, in percent; `kind` is its colour."""

    title: str
    kind: str
    percent: int


@dataclass(frozen=True, slots=True)
class Row:
    """One metric, in words; `kind` and `percent` (of now) where it is a part of something."""

    title: str
    now: str
    average: str
    peak: str
    kind: str
    percent: int | None


def bars(used: UsedPercent | None) -> list[Bar]:
    """The bars of a session in a list; nothing of what is not known."""
    if used is None:
        return []
    found = (("cpu", used.cpu), ("mem", used.mem), ("gpu", used.gpu), ("gpu_mem", used.gpu_mem))
    return [
        Bar(TITLES[name], name.partition("_")[0], percent)
        for name, percent in found
        if percent is not None
    ]


def rows(usage: SessionUsage) -> Iterator[Row]:
    """What a session uses and used, metric by metric; none of a GPU where it has none, nor of
    what was never known."""
    has = whole_of(usage.has)
    for name, title in TITLES.items():
        peak = getattr(usage.peak, name)
        if peak is None and name not in ("cpu", "mem"):
            continue
        now, of = _of(usage.now, name), has.get(name)
        used = percent(now, of)
        yield Row(
            title, _words(name, now), _words(name, _of(usage.average, name)), _words(name, peak),
            name.partition("_")[0] if of else "", None if used is None else min(100, round(used)),
        )  # fmt: skip


def _of(amounts: Amounts | None, name: str) -> float | None:
    return None if amounts is None else getattr(amounts, name)


def _words(name: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if name == "cpu":
        return f"{format_thousandths(round(value / 10) * 10)} cores"
    if name == "gpu":
        return f"{value:.0f}%"
    text = format_bytes(round(value))
    return text if name in ("mem", "gpu_mem") else f"{text}/s"
