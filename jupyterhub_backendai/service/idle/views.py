"""What people are told of a session's idle checks; levels get their meaning here alone, which is
that of Backend.AI's colours."""

from __future__ import annotations

from collections.abc import Sequence

from ...scheduling.idle import Check, Verdict, ahead, earliest
from ...site.runtime import Site
from .schemas import CheckView, IdleView, KeepView, Level, MetricView
from .watch import Watch
from .watched import LEAST, Watched
from .words import explained, fate, state_text

SOON, NEAR = 3600.0, 4 * 3600.0  # seconds
_ORDER: tuple[Level, ...] = ("ok", "warn", "bad")


def time_level(left: float) -> Level:
    """How near an end is that is so many seconds away."""
    return "bad" if left < SOON else "warn" if left < NEAR else "ok"


def metric_level(average: float, threshold: float) -> Level:
    """How near an average is to its threshold, both in percent."""
    return "bad" if average < 2 * threshold else "warn" if average < 10 * threshold else "ok"


def use_level(check: Check, averages: Sequence[float | None]) -> Level | None:
    """How near a check of several metrics is to ending a session: where all of them have to be too
    little the best decides, else the worst. None where none is known."""
    known = [
        _near(average, threshold)
        for (_, threshold), average in zip(check.thresholds, averages, strict=True)
        if average is not None
    ]
    pick = min if check.operator == "and" else max
    return pick(known, key=_ORDER.index, default=None)


def _near(average: float, threshold: float) -> Level:
    """As `metric_level`, but that a high threshold is not near all the time."""
    if average < min(2 * threshold, threshold + 5):
        return "bad"
    return "warn" if average < min(10 * threshold, threshold + 10) else "ok"


def view_of(site: Site, watch: Watch, watched: Watched) -> IdleView:
    """All that is told of a session."""
    now = watch.clock.now()
    ends, first = watched.ends_at, earliest(watched.verdicts)
    kept = watched.facts.kept_until
    return IdleView(
        now=watch.clock.wall_now,
        ends_at=None if ends is None else watch.told(ends),
        level=None if ends is None else time_level(ends - now),
        by=None if ends is None or first is None else first.check.name,
        then=None if ends is None or first is None else fate(first.check, watched.why_not),
        why_not=watched.why_not if first is not None and first.check.rests else "",
        warn=warnings_due(site, watched, now) > 0,
        kept_until=None if kept is None or kept <= now else watch.told(kept),
        keep=keep_view(site, watched, now),
        checks=[_check(watch, watched, one, now) for one in watched.verdicts],
    )


def warnings_due(site: Site, watched: Watched, now: float) -> int:
    """How many of the site's warnings it is time for, of the end of this session."""
    first = earliest(watched.verdicts)
    if watched.ends_at is None or first is None:
        return 0
    left, reach = watched.ends_at - now, first.check.reach
    return sum(left <= ahead(warning, reach) for warning in site.idle.warnings)


def keep_view(site: Site, watched: Watched, now: float) -> KeepView | None:
    """How long its owner may keep it by the policy, and how much is left of that."""
    keep = site.idle.keep(watched.session)
    if keep is None:
        return None
    left, room = max(0.0, keep.total - watched.kept), watched.room(now)
    most = min(keep.each, left, room) if room >= LEAST else 0.0
    return KeepView(each=keep.each, left=left, now=most)


def keeps_for(site: Site, watched: Watched, now: float) -> float:
    """For how many seconds its owner would keep it by asking now; 0 where that is refused."""
    keeps = keep_view(site, watched, now)
    return 0.0 if keeps is None else keeps.now


def _check(watch: Watch, watched: Watched, verdict: Verdict, now: float) -> CheckView:
    check, ends = verdict.check, verdict.ends_at
    if ends is not None and watched.ends_at is not None:
        ends = max(ends, watched.ends_at)  # none comes sooner than what was told
    averages = _averages(verdict)
    return CheckView(
        check=check.name,
        source=check.source,
        state=verdict.state.value,
        limit=check.limit,
        grace=check.grace,
        ends_at=None if ends is None else watch.told(ends),
        level=use_level(check, averages) if ends is None else time_level(ends - now),
        operator=check.operator if check.metrics else None,
        metrics=[
            MetricView(
                metric=name,
                average=average,
                threshold=threshold,
                level=None if average is None else metric_level(average, threshold),
            )
            for (name, threshold), average in zip(check.thresholds, averages, strict=True)
        ],
        explained=explained(check),
        text=state_text(verdict),
    )


def _averages(verdict: Verdict) -> Sequence[float | None]:
    return verdict.averages or (None,) * len(verdict.check.thresholds)
