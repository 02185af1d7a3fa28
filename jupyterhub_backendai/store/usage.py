"""How what sessions used is stored, made coarser, dropped and read.

Steps come in the finest size. Whenever a coarser one is over it is made of the finer ones that are
still there, so that a restart of the service loses nothing but what nobody sampled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, or_, select, text

from ..model.status import Status
from ..model.usage import KEPT, METRICS, SIZES, Span, Totals, totals_of
from .records import RunningContainer
from .tables import KERNELS, SESSIONS
from .usage_tables import USAGE_STEPS, USAGE_TOTALS

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_STEPS, _TOTALS = USAGE_STEPS.c, USAGE_TOTALS.c
MAIN = "main1"
MOST_IDS = 500  # in one statement: databases take only so many


def _names(table: Any) -> str:
    return ", ".join(column.name for column in table.columns)


def _places(table: Any) -> str:
    return ", ".join(f":{column.name}" for column in table.columns)


def _add(metric: str) -> str:
    """How totals grow by others."""
    mine, theirs = f"usage_totals.{metric}", f"excluded.{metric}"
    return (
        f"{metric}_sum = CASE WHEN {theirs}_sum IS NULL THEN {mine}_sum"
        f" ELSE coalesce({mine}_sum, 0) + {theirs}_sum END, "
        f"{metric}_seconds = coalesce({mine}_seconds, 0) + {theirs}_seconds, "
        f"{metric}_peak = CASE WHEN {theirs}_peak IS NULL OR {mine}_peak > {theirs}_peak"
        f" THEN {mine}_peak ELSE {theirs}_peak END"
    )


# Of constants alone, so that both databases have the same text.
_INSERT = text(
    f"INSERT INTO usage_steps ({_names(USAGE_STEPS)}) VALUES ({_places(USAGE_STEPS)})"  # noqa: S608
    " ON CONFLICT DO NOTHING"
)
_GROW = text(
    f"INSERT INTO usage_totals ({_names(USAGE_TOTALS)}) VALUES ({_places(USAGE_TOTALS)})"  # noqa: S608
    f" ON CONFLICT (session_id) DO UPDATE SET {', '.join(map(_add, METRICS))}"
)


def _fold(size: int, finer: int) -> Any:
    """Makes the steps of a size, of those of the next finer one. A step belongs to where it ends;
    the mean is over the time in which a metric was known."""
    bucket = f"((at + {size * 1000 - 1}) / {size * 1000}) * {size * 1000}"
    means = (
        f"sum({metric} * seconds) / sum(CASE WHEN {metric} IS NOT NULL THEN seconds END)"
        for metric in METRICS
    )
    peaks = (f"max({metric}_peak)" for metric in METRICS)
    return text(
        f"INSERT INTO usage_steps ({_names(USAGE_STEPS)})"  # noqa: S608
        f" SELECT session_id, {size}, {bucket}, sum(seconds), {', '.join(means)}, "
        f"{', '.join(peaks)} FROM usage_steps"
        f" WHERE size = {finer} AND at > :after AND at <= :until"
        f" GROUP BY session_id, {bucket} ON CONFLICT DO NOTHING"
    )


_FOLDS = [(size, _fold(size, finer)) for finer, size in zip(SIZES, SIZES[1:], strict=False)]
_DROP = delete(USAGE_STEPS).where(_STEPS.size == bindparam("of"), _STEPS.at <= bindparam("upto"))
_OF_ONE = (
    select(USAGE_STEPS)
    .where(
        _STEPS.session_id == bindparam("of"),
        _STEPS.size == bindparam("in_size"),
        _STEPS.at > bindparam("after"),
    )
    .order_by(_STEPS.at)
)
_TOTALS_OF = select(USAGE_TOTALS).where(_TOTALS.session_id == bindparam("of"))
_RUNNING = (
    select(
        SESSIONS.c.id, SESSIONS.c.cpu, SESSIONS.c.mem, SESSIONS.c.agent, KERNELS.c.container_id
    )
    .join(KERNELS, and_(KERNELS.c.session_id == SESSIONS.c.id, KERNELS.c.name == MAIN))
    .where(SESSIONS.c.status == Status.RUNNING.value, KERNELS.c.container_id.is_not(None))
)  # fmt: skip


def running(db: Connection) -> list[RunningContainer]:
    """The main containers of all sessions that run."""
    return [
        RunningContainer(row.id, row.agent or "", row.container_id, row.cpu, row.mem)
        for row in db.execute(_RUNNING)
    ]


def add(db: Connection, spans: Sequence[Span]) -> None:
    """Notes steps of the finest size, of sessions that are still there."""
    there = _those_there(db, {span.session_id for span in spans})
    of: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        if span.session_id in there:
            of[span.session_id].append(span)
    if of:
        db.execute(_INSERT, [_row(span) for found in of.values() for span in found])
        db.execute(_GROW, [_total(session_id, found) for session_id, found in of.items()])


def tidy(db: Connection, before: datetime | None, now: datetime) -> None:
    """Where a coarser step is over since `before` (None: not known), makes it of the finer ones,
    and drops what is kept no longer."""
    size = SIZES[1]
    if before is not None and _floor(_milliseconds(before), size) == _floor(
        _milliseconds(now), size
    ):
        return
    for (size, fold), finer in zip(_FOLDS, SIZES, strict=False):
        until = _floor(_milliseconds(now), size)
        oldest = until - KEPT[finer] * 1000
        after = oldest if before is None else max(oldest, _floor(_milliseconds(before), size))
        if until > after:
            db.execute(fold, {"after": after, "until": until})
    for size, coarser in zip(SIZES, (*SIZES[1:], SIZES[-1]), strict=True):
        # Whole coarser steps, so that one begins where the finer ones end.
        upto = _floor(_milliseconds(now) - KEPT[size] * 1000, coarser)
        db.execute(_DROP, {"of": size, "upto": upto})


def spans(db: Connection, session_id: str, size: int, since: datetime) -> list[Span]:
    """The stored steps of one session and size that ended after that, oldest first."""
    wanted = {"of": session_id, "in_size": size, "after": _milliseconds(since)}
    return [_span(row) for row in db.execute(_OF_ONE, wanted)]


def totals(db: Connection, session_id: str) -> Totals:
    """What a session came to so far."""
    row = db.execute(_TOTALS_OF, {"of": session_id}).mappings().one_or_none()
    if row is None:
        return Totals()
    return Totals(
        *({metric: row[f"{metric}_{part}"] for metric in METRICS} for part in _PARTS)
    )  # fmt: skip


_PARTS = ("sum", "seconds", "peak")


def recent(db: Connection, session_ids: Collection[str], since: datetime) -> dict[str, list[Span]]:
    """The stored steps of sessions that ended after that, oldest first: of each time the finest
    that is still kept. A session without any is left out."""
    found: dict[str, dict[int, list[Span]]] = {}
    ids = sorted(session_ids)
    for first in range(0, len(ids), MOST_IDS):
        rows = db.execute(
            select(USAGE_STEPS)
            .where(_STEPS.session_id.in_(ids[first : first + MOST_IDS]))
            .where(_STEPS.at > _milliseconds(since))
            .where(or_(*(_STEPS.size == size for size in SIZES)))
            .order_by(_STEPS.at)
        )
        for row in rows:
            sizes = found.setdefault(row.session_id, {size: [] for size in SIZES})
            sizes[row.size].append(_span(row))
    return {session_id: _joined(sizes) for session_id, sizes in found.items()}


def _joined(sizes: dict[int, list[Span]]) -> list[Span]:
    joined = list(sizes[SIZES[0]])
    for size in SIZES[1:]:
        if joined:
            # The coarse step that the first finer one went into says the same once more.
            first = -(-_milliseconds(joined[0].at) // (size * 1000)) * size * 1000
            joined = [s for s in sizes[size] if _milliseconds(s.at) < first] + joined
        else:
            joined = list(sizes[size])
    return joined


def _those_there(db: Connection, session_ids: Iterable[str]) -> set[str]:
    """Those that are not forgotten, and will not be before the end of this write."""
    ids, found = sorted(session_ids), set[str]()
    for first in range(0, len(ids), MOST_IDS):
        some = select(SESSIONS.c.id).where(SESSIONS.c.id.in_(ids[first : first + MOST_IDS]))
        found.update(db.scalars(some.with_for_update(read=True, key_share=True)))
    return found


def _row(span: Span) -> dict[str, Any]:
    return {
        "session_id": span.session_id, "size": SIZES[0], "at": _milliseconds(span.at),
        "seconds": span.seconds,
        **{metric: span.mean.get(metric) for metric in METRICS},
        **{f"{metric}_peak": span.peak.get(metric) for metric in METRICS},
    }  # fmt: skip


def _total(session_id: str, found: Iterable[Span]) -> dict[str, Any]:
    grown = totals_of(found)
    row: dict[str, Any] = {"session_id": session_id}
    for metric in METRICS:
        row[f"{metric}_sum"] = grown.sums[metric]
        row[f"{metric}_seconds"] = grown.seconds[metric]
        row[f"{metric}_peak"] = grown.peak[metric]
    return row


def _span(row: Any) -> Span:
    values = row._mapping
    return Span(
        row.session_id, _EPOCH + row.at * _MILLISECOND, row.seconds,
        {metric: values[metric] for metric in METRICS},
        {metric: values[f"{metric}_peak"] for metric in METRICS},
    )  # fmt: skip


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _floor(milliseconds: int, size: int) -> int:
    return milliseconds - milliseconds % (size * 1000)
