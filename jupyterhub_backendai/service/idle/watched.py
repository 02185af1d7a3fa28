"""One running session as idle checks see it. Times are those of the `SteadyClock`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

from ...model.status import Status
from ...model.usage import Step, percent
from ...scheduling.idle import (
    Check,
    Facts,
    Verdict,
    ahead,
    earliest,
    is_due,
    judge,
    unused_until,
)
from ...scheduling.window import Window
from ...store import IdleRecord, Session
from ..ways.tunnel import Place
from .refusals import Refusal, Tries

INFINITE = float("inf")
LEAST_PUT_OFF = 120.0  # seconds; less is the same end to who is told of it (`notify.rule`)
LEAST = 60.0  # seconds; to be kept for less is not worth a word
REST = 60.0  # seconds between two judgements, at most, of a session whose end is not near


class Watched:
    """What is known of a session, what its checks say, and when it is to be ended.

    `ends_at`: what people are told; None where no end is in sight. It never comes nearer than the
    notice that the site gives, however suddenly a check turns. `shown`: somebody was shown it since
    its server was asked. `judge_at`: when it is to be judged again, at the latest. `patience`:
    seconds after which its server's answer is old. `ask_at`: not before that its server is asked
    again, if its end is not due. `slow`: its server took long the last time. `place`: where that
    is, as far as it is known. `refusal`: why it will be ended where it should be hibernated;
    `tries`: to hibernate it, that failed.
    """

    def __init__(
        self,
        session: Session,
        checks: tuple[Check, ...],
        record: IdleRecord,
        has: Mapping[str, float],
        patience: float,
    ) -> None:
        self.session = session
        self.checks = checks
        self.facts = Facts(
            record.started, record.used, record.asked, record.heard, record.kept_until,
            {one: _window(one, record.started, patience) for one in checks if one.metrics},
        )  # fmt: skip
        self.kept = record.kept
        self.deciding = asyncio.Lock()  # whether it ends, or is kept
        self.has = has
        self.ends_at = record.not_before
        self.verdicts: tuple[Verdict, ...] = ()
        self.noted: IdleRecord | None = None
        self.shown = False
        self.refusal: Refusal | None = None
        self.tries = Tries()
        self.judge_at = self.ask_at = -INFINITE
        self.slow = False
        self.place: Place | None = None
        self._network = tuple(check for check in checks if check.name == "network")
        self.patience = min((check.limit for check in self._network), default=INFINITE) / 4
        spans = (window.span for window in self.facts.windows.values())
        self._rest = min(REST, self.patience, *spans)

    def is_of(self, session: Session) -> bool:
        """Whether a session, as it is now, runs as the one that is meant here: it has not been
        hibernated and begun again since."""
        runs = session.status is Status.RUNNING
        return runs and session.running_at == self.session.running_at

    @property
    def asks(self) -> bool:
        """Whether its server has to be asked when it was used."""
        return bool(self._network)

    @property
    def unused_until(self) -> list[tuple[float, float]]:
        """When network checks end it if nobody has used it since its server was asked, each with
        its reach; none where that never said."""
        ends = ((unused_until(one, self.facts), one.reach) for one in self._network)
        return [(at, reach) for at, reach in ends if at is not None]

    @property
    def other_ends(self) -> list[tuple[float, float]]:
        """When other checks than those end it, each with its reach."""
        ends = ((one.ends_at, one.check) for one in self.verdicts)
        return [
            (at, check.reach) for at, check in ends if at is not None and check.name != "network"
        ]

    @property
    def record(self) -> IdleRecord:
        """What is to be noted of it."""
        facts = self.facts
        return IdleRecord(
            facts.started, facts.used, facts.asked, facts.heard, facts.kept_until, self.kept,
            self.ends_at,
        )  # fmt: skip

    def hear(self, used: float, asked: float, at: float) -> None:
        """Its server said at `at` when it was used, and asked anything, last."""
        facts = self.facts
        facts.used = max(facts.used or facts.started, min(used, at))
        facts.asked = max(facts.asked or facts.started, min(asked, at))
        facts.heard = max(facts.heard or at, at)
        self.shown, self.judge_at = False, -INFINITE

    def heard_since(self, at: float) -> bool:
        """Whether its server has answered since then."""
        return self.facts.heard is not None and self.facts.heard >= at

    def add(self, step: Step, ended: float) -> None:
        """What it used in a step that ended at `ended`."""
        shares = percentages(step, self.has)
        for window in self.facts.windows.values():
            values = [shares[metric] for metric in window.metrics]
            window.add(ended - step.seconds, ended, values)

    def judge(
        self, now: float, stale: float, near: Callable[[float], float], notice: float
    ) -> None:
        """Has all checks say what they see. `near`: seconds before an end from which it is near, by
        the reach of its check."""
        # Not always the same: else all that were judged together once are so ever after.
        self.judge_at = now + random.uniform(self._rest / 2, self._rest)  # noqa: S311
        self.verdicts = tuple(
            judge(one, self.facts, now, stale, near(one.reach)) for one in self.checks
        )
        first = earliest(self.verdicts)
        if first is None or first.ends_at is None:
            self.ends_at = None
            return
        told = INFINITE if self.ends_at is None else self.ends_at
        self.ends_at = max(first.ends_at, min(told, now + notice))
        if first.check.rests and self.refusal is not None:
            self.ends_at = max(self.ends_at, self.refusal.not_before)
        if self.ends_at - now <= 2 * self._rest:
            self.judge_at = now

    def warn_late(self, since: float, now: float, notice: float) -> None:
        """Has its end leave the notice once more, if the last warning fell into a time since
        `since` in which nobody was warned."""
        first = earliest(self.verdicts)
        if first is None or self.ends_at is None:
            return
        lead = ahead(notice, first.check.reach)
        if self.ends_at - lead > since:
            self.ends_at = max(self.ends_at, now + lead)

    @property
    def why_not(self) -> str:
        """Why it will be ended where a check would have it hibernated; empty where it may be."""
        return "" if self.refusal is None else self.refusal.why

    @property
    def is_to_rest(self) -> bool:
        """Whether the check that ends it first would have it hibernated."""
        first = earliest(self.verdicts)
        return first is not None and first.check.rests

    def refuse(self, why: str, now: float, notice: float, tried: bool) -> bool:
        """It cannot be hibernated, and will be ended. Whether that has to wait: its owner is told
        as long before as of any end, and who was told something else is told anew."""
        if self.refusal is not None:
            if tried or not self.refusal.tried:
                self.refusal = Refusal(why, tried, self.refusal.not_before)
        else:
            ends, not_before = now if self.ends_at is None else self.ends_at, 0.0
            if notice > 0 and ends - now < notice:
                not_before = max(ends, now) + max(notice, LEAST_PUT_OFF)
            self.refusal = Refusal(why, tried, not_before)
            self.ends_at, self.judge_at = max(ends, not_before), -INFINITE
        return now < self.refusal.not_before

    def allow(self, tried: bool) -> None:
        """It can be hibernated, as far as is known; `tried`: it is under way."""
        if self.refusal is not None and (tried or not self.refusal.tried):
            self.refusal, self.judge_at = None, -INFINITE

    def begin_anew(self) -> None:
        """Its end is far away again, and the next one is another matter."""
        self.refusal, self.tries = None, Tries()

    def room(self, now: float) -> float:
        """Seconds for which it can be kept longer than it lasts already, whatever a policy says: up
        to the end by a check that nobody puts off."""
        begins = max(now, self.ends_at or 0.0, self.facts.kept_until or 0.0)
        fixed = [one.ends_at for one in self.verdicts if one.ends_at and not one.check.bends]
        return min(fixed, default=INFINITE) - begins

    def due(self, now: float) -> Verdict | None:
        """The check that ends it now; None where none does."""
        if self.ends_at is None or self.ends_at > now:
            return None
        return earliest(one for one in self.verdicts if is_due(one, self.facts, now))


def _window(check: Check, started: float, patience: float) -> Window:
    return Window(check.metrics, check.limit, started + check.grace, patience)


def percentages(step: Step, has: Mapping[str, float]) -> dict[str, float | None]:
    """What was used of what was granted, in percent; None where it is not known. `has`: what was
    granted, by metric, in the step's units."""
    return {
        "cpu": percent(step.cpu, has.get("cpu")),
        "mem": percent(step.mem, has.get("mem")),
        "gpu": step.gpu,
        "gpu_mem": percent(step.gpu_mem, has.get("gpu_mem")),
    }
