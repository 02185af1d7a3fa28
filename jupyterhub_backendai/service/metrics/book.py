"""The text that Prometheus reads, made in a thread; one for all who ask at about the same time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from ..._version import __version__
from ...model.slots import Slots
from ...model.status import Status
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import AgentState, Unavailable
from ..agents import loads
from . import catalogue as names
from .counting import Counting, Histogram

SAME = 5.0  # seconds for which one look is good enough, for all who ask
DAY = timedelta(days=1)
THOUSANDTHS = ("cpu", "fgpu", "gpu", "mig")  # slots that are counted in them
MOST_CODES = 200  # of errors; a further one is told as "other"

Amounts = Iterable[tuple[tuple[str, ...], float]]


class Metrics:
    """The metrics of the service."""

    def __init__(self) -> None:
        self._counting = Counting()
        self._errors: Counter[tuple[str, str]] = Counter()
        self._notices: Counter[tuple[str, str]] = Counter()
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[float, bytes] | None = None

    def note_error(self, status: int, code: str) -> None:
        """An answer that was no success."""
        key = str(status), code
        if key not in self._errors and len(self._errors) >= MOST_CODES:
            key = str(status), "other"
        self._errors[key] += 1

    def note_notice(self, channel: str, outcome: str) -> None:
        """What became of a warning of an end."""
        self._notices[channel, outcome] += 1

    async def text(self, site: Site) -> bytes:
        """All of them now, as Prometheus reads them."""
        async with self._one_at_a_time:
            if self._last is None or time.monotonic() - self._last[0] >= SAME:
                text = await site.db(self._look, site, dict(self._errors), dict(self._notices))
                self._last = time.monotonic(), text
            return self._last[1]

    def _look(
        self,
        site: Site,
        errors: Mapping[tuple[str, str], int],
        notices: Mapping[tuple[str, str], int],
    ) -> bytes:
        """In a thread."""
        families = [
            _filled(names.INFO, [((__version__,), 1)]),
            _filled(names.ERRORS, errors.items()),
            _filled(names.NOTICES, notices.items()),
        ]
        try:
            families += self._from_database(site)
            up = 1
        except Unavailable as error:
            site.log.error("Metrics lack what the database has: %s", error)
            up = 0
        return _text([*families, _filled(names.DATABASE, [((), up)])])

    def _from_database(self, site: Site) -> list[Metric]:
        store, counting = site.store, self._counting
        groups = [group.name for group in site.catalog.resource_groups]
        for group in groups:
            counting.begin_group(group)
        counting.catch_up(store)
        counts = store.live_counts()
        pending = {one.resource_group: one for one in counts if one.status is Status.PENDING}
        day = store.ended_counts(utcnow() - DAY)
        return [
            _filled(
                names.SESSIONS,
                [((one.resource_group, one.status.value), one.count) for one in counts],
            ),
            _filled(
                names.WAITING,
                [
                    ((group,), pending[group].count if group in pending else 0)
                    for group in dict.fromkeys([*groups, *pending])
                ],
            ),
            _filled(
                names.LONGEST,
                [((group,), one.since.timestamp()) for group, one in pending.items()],
            ),
            _timed(names.WAITS, counting.waits),
            _timed(names.SPAWNS, counting.spawns),
            _filled(names.ENDED, counting.ended.items()),
            _filled(
                names.ENDED_TODAY, [((one.status.value, one.reason_code), one.count) for one in day]
            ),
            *_of_agents(store.agents(), site),
        ]


def _of_agents(agents: list[AgentState], site: Site) -> list[Metric]:
    there = loads(agents, site.store.holdings())
    facts = {
        names.AVAILABLE: lambda agent, load: float(agent.available),
        names.SCHEDULABLE: lambda agent, load: float(agent.schedulable),
        names.SEEN: lambda agent, load: agent.seen_at.timestamp(),
        names.HOLDERS: lambda agent, load: len(load.sessions),
    }
    found = [
        _filled(name, [(_where(one), fact(one, there[one.name])) for one in agents])
        for name, fact in facts.items()
    ]
    found.append(_filled(names.CAPACITY, _amounts((one, one.capacity) for one in agents)))
    found.append(_filled(names.HELD, _amounts((one, there[one.name].used) for one in agents)))
    devices = Counter(
        (*_where(agent), "yes" if device.available else "no")
        for agent in agents
        for device in agent.devices
    )
    return [*found, _filled(names.DEVICES, devices.items())]


def _where(agent: AgentState) -> tuple[str, str]:
    return agent.name, agent.group


def _amounts(rows: Iterable[tuple[AgentState, Slots]]) -> Iterator[tuple[tuple[str, ...], float]]:
    for agent, slots in rows:
        for name, amount in slots.as_dict().items():
            yield (*_where(agent), name), amount / 1000 if name in THOUSANDTHS else amount


def _filled(told: names.Told, values: Amounts) -> Metric:
    family = told.family()
    for labels, value in values:
        family.add_metric(labels, value)  # type: ignore[attr-defined]
    return family


def _timed(told: names.Told, values: Mapping[str, Histogram]) -> Metric:
    family = told.family()
    for group, histogram in values.items():
        family.add_metric(  # type: ignore[attr-defined]
            (group,), buckets=histogram.buckets(), sum_value=histogram.total
        )
    return family


class _Once:
    """What a registry asks for its metrics."""

    def __init__(self, families: list[Metric]) -> None:
        self.families = families

    def collect(self) -> list[Metric]:
        return self.families


def _text(families: list[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(families))
    return generate_latest(registry)
