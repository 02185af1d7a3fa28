"""What the red team says: a line for each case, then for each axis whether its label stands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cases import CASES
from judging import Axis, Case, Reached

from jupyterhub_backendai.model.gpus import Enforcement, Hold
from jupyterhub_backendai.model.slots import MIB

AXES: tuple[Axis, ...] = ("memory", "compute", "faults", "access", "told")


@dataclass(frozen=True)
class Standing:
    """Whether the label of an axis stands. `shown`: everything of it that can be was tried."""

    axis: Axis
    claims: Hold
    stands: bool
    tried: int
    cases: int

    @property
    def words(self) -> str:
        if not self.tried:
            return "nothing was tried"
        how = f"{self.tried} of {self.cases} cases tried"
        if self.claims == "none":
            return f"claims nothing ({how})"
        return f"{'stands' if self.stands else 'BROKEN'} ({how})"


def claimed(axis: Axis, enforcement: Enforcement) -> Hold:
    """What is claimed of an axis. Which devices a session has is never less than `hard`; what
    programs and admins are told is no part of a label."""
    if axis == "access":
        return "hard"
    return "none" if axis == "told" else getattr(enforcement, axis)


def standing(
    axis: Axis, results: Sequence[tuple[Case, Reached]], enforcement: Enforcement
) -> Standing:
    """`hard` is broken by any case, `soft` by one that happens to programs that mean no harm."""
    claims = claimed(axis, enforcement)
    mine = [(case, found) for case, found in results if case.axis == axis]
    broken = [case for case, found in mine if found.verdict == "broken"]
    if claims == "soft":
        broken = [case for case in broken if not case.wilful]
    stands = claims == "none" or not broken
    tried = sum(found.verdict != "not tried" for _, found in mine)
    return Standing(axis, claims, stands, tried, len(mine))


def line(case: Case, found: Reached) -> str:
    """One case."""
    if found.verdict == "not tried":
        return f"  {case.axis:8} {case.name:24} not tried ({found.note})"
    figures = f"{_figure(found.reached, found.unit)} of {_figure(found.allowed, found.unit)}"
    note = f"; {found.note}" if found.note else ""
    return f"  {case.axis:8} {case.name:24} {found.verdict:6} {figures} {_unit(found.unit)}{note}"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value / MIB:.0f}" if unit.startswith("bytes") else f"{value:.4g}"


def _unit(unit: str) -> str:
    return unit.replace("bytes", "MiB", 1)


def listing() -> str:
    """All cases, and what is expected of each."""
    lines = ["Broken is: with the label `hard` anything above the share; with `soft` only what is"]
    lines += ["marked *, which programs do that mean no harm; with `none` nothing.", ""]
    for case in CASES:
        mark = " " if case.wilful else "*"
        lines.append(f"{mark} {case.axis:8} {case.name:24} {case.tries}")
    return "\n".join(lines)


def as_json(
    head: dict[str, Any], results: Sequence[tuple[Case, Reached]], axes: Sequence[Standing]
) -> str:
    """Everything, in one line."""
    cases = [
        {"name": case.name, "axis": case.axis, "tries": case.tries, **asdict(found)}
        for case, found in results
    ]
    labels = {one.axis: {**asdict(one), "words": one.words} for one in axes}
    return json.dumps({**head, "axes": labels, "cases": cases})
