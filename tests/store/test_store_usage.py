"""What sessions used: stored in steps that grow coarser, and added up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select
from store_samples import NOW, end, run_pass, start, submit

from jupyterhub_backendai.model.usage import METRICS, SIZES, Span, Step, span_of
from jupyterhub_backendai.store import SessionResult, Store
from jupyterhub_backendai.store.usage_tables import USAGE_STEPS, USAGE_TOTALS

BEGIN = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
NOTHING = dict.fromkeys(METRICS)


def step(session_id: str, at: float, seconds: float = 15, **values: Any) -> Step:
    """A step that ends `at` seconds after the beginning."""
    return Step(session_id, BEGIN + timedelta(seconds=at), seconds, **values)


def add(store: Store, *steps: Step, before: float | None = None, now: float = 0) -> None:
    """Notes steps at `now`, and those of `before` were the last."""
    earlier = None if before is None else BEGIN + timedelta(seconds=before)
    at = BEGIN + timedelta(seconds=now)
    store.add_usage([span_of(one) for one in steps], before=earlier, now=at)


def spans(store: Store, session_id: str, size: int) -> list[Span]:
    return store.usage_spans(session_id, size, BEGIN - timedelta(days=1))


def test_a_step_comes_back_as_it_was(store: Store) -> None:
    one, two = submit(store, "one").id, submit(store, "two").id
    whole = step(
        one, 15.25, 15.5, cpu=250.5, mem=2**40, disk_read=31.0, disk_write=62.0, net_in=0.0,
        net_out=15.5, gpu=50.0, gpu_mem=2**33,
    )  # fmt: skip
    holes = step(two, 15, cpu=1.0)
    add(store, whole, holes, now=16)
    everything = store.usage_steps([one, two, "f" * 32], BEGIN)
    assert everything == {one: [whole], two: [holes]}
    assert store.usage_steps([one], whole.at) == {}, "only what ended after that"
    assert store.usage_steps([], BEGIN) == {}


def test_coarser_steps_have_the_mean_over_what_was_known_and_the_peak(store: Store) -> None:
    one = submit(store, "one").id
    steps = [
        step(one, 15, 15, cpu=100, net_in=150),
        step(one, 30, 15, cpu=400, net_in=None),
        step(one, 300, 30, cpu=None, net_in=900),
    ]
    add(store, *steps, step(one, 315, cpu=7), now=316)
    (coarse,) = spans(store, one, 300)
    assert (coarse.at, coarse.seconds) == (BEGIN + timedelta(seconds=300), 60)
    assert coarse.mean == {**NOTHING, "cpu": 250, "net_in": pytest.approx((150 + 900) / 45)}
    assert coarse.peak == {**NOTHING, "cpu": 400, "net_in": 30}
    assert spans(store, one, 3600) == []
    # What was made once is not made again, and an hour is made of what is there of it.
    add(store, step(one, 3590, cpu=1000), before=316, now=3601)
    assert spans(store, one, 300)[0] == coarse
    (hour,) = spans(store, one, 3600)
    assert (hour.seconds, hour.peak["cpu"]) == (90, 1000)
    assert hour.mean["cpu"] == pytest.approx((250 * 60 + 7 * 15 + 1000 * 15) / 90)


def test_a_service_that_was_away_makes_the_coarse_steps_when_it_comes_back(store: Store) -> None:
    one = submit(store, "one").id
    add(store, *(step(one, at, cpu=at) for at in range(15, 615, 15)), before=0, now=200)
    assert spans(store, one, 300) == []
    add(store, now=3500)
    assert [span.peak["cpu"] for span in spans(store, one, 300)] == [300, 600]


def test_a_year_is_bounded_and_read_without_a_gap(store: Store) -> None:
    """An hour of every six days for a year, then three days: all that is kept of any size."""
    one = submit(store, "one").id
    before: float | None = None
    day = 86400
    times = [d * day + s for d in range(0, 360, 6) for s in range(0, 3600, 300)]
    times += list(range(362 * day, 365 * day, 15))
    for first in range(0, len(times), 240):
        some = times[first : first + 240]
        add(store, *(step(one, at + 15, cpu=5) for at in some), before=before, now=some[-1] + 15)
        before = some[-1] + 15
    sizes = {size: len(spans(store, one, size)) for size in SIZES}
    assert sizes[15] <= 240 + 20
    assert sizes[300] <= 576 + 12
    assert sum(sizes.values()) <= 2300
    three_days = store.usage_steps([one], BEGIN + timedelta(days=362))[one]
    assert sum(one.seconds for one in three_days) == 3 * day
    assert [one.at for one in three_days] == sorted({one.at for one in three_days})


def test_totals_grow_with_each_write(store: Store, url: str) -> None:
    one = submit(store, "one").id
    assert store.usage_totals(one).average() == NOTHING
    add(store, step(one, 15, 10, cpu=100, disk_read=5), step(one, 30, 10, cpu=300), now=31)
    again = Store(url)  # as after a restart
    add(again, step(one, 45, 20, cpu=50, gpu=9), now=46)
    totals = again.usage_totals(one)
    again.close()
    assert totals.average() == {**NOTHING, "cpu": 125, "disk_read": 0.5, "gpu": 9}
    assert totals.peak == {**NOTHING, "cpu": 300, "disk_read": 0.5, "gpu": 9}
    assert (totals.sums["disk_read"], totals.sums["net_in"]) == (5, None)


def test_what_is_forgotten_takes_its_usage_along(store: Store) -> None:
    gone, stays = submit(store, "gone").id, submit(store, "stays").id
    run_pass(store)
    start(store, gone, 1)
    add(store, step(gone, 15, cpu=1), step(stays, 15, cpu=2), now=16)
    end(store, gone, 20, SessionResult.UNDEFINED)
    assert store.forget(NOW + timedelta(days=1), 10) == 1
    # A step that was sampled before that and comes late.
    add(store, step(gone, 30, cpu=1), step(stays, 30, cpu=2), now=31)
    with store._db.read() as db:
        for table in (USAGE_STEPS, USAGE_TOTALS):
            assert set(db.scalars(select(table.c.session_id))) == {stays}
        assert db.scalar(select(func.count()).select_from(USAGE_STEPS)) == 2


def test_who_runs(store: Store) -> None:
    runs, waits = submit(store, "runs").id, submit(store, "waits").id
    store.set_kernel(runs, role="main", container_id="c" * 64)
    assert store.running_containers() == []
    run_pass(store)
    start(store, runs, 1)
    (found,) = store.running_containers()
    assert (found.session_id, found.agent, found.container) == (runs, "a1", "c" * 64)
    assert (found.cpu, found.mem) == (1000, 2**30)
    assert waits not in {one.session_id for one in store.running_containers()}
