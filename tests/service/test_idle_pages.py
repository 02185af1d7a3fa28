"""What pages say of idle checks: how near an end is, in green, yellow and red by Backend.AI's
numbers, and what ended a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.scheduling.idle import Check
from jupyterhub_backendai.service.idle.views import metric_level, time_level, use_level
from jupyterhub_backendai.site.clock import utcnow

from .test_idle_worker import HOUR, idle


def check(operator: str, **thresholds: float) -> Check:
    return Check("utilization", "site", 3600, operator=operator, thresholds=(*thresholds.items(),))


def test_what_is_left() -> None:
    found = [time_level(left) for left in (0, 3599, 3600, 14399, 14400)]
    assert found == ["bad", "bad", "warn", "warn", "ok"]


@pytest.mark.parametrize(
    ("threshold", "average", "level"),
    [
        (5, 0, "bad"), (5, 9.9, "bad"), (5, 10, "warn"), (5, 49.9, "warn"), (5, 50, "ok"),
        (1, 1.9, "bad"), (1, 2, "warn"), (1, 9.9, "warn"), (1, 10, "ok"), (0, 0, "ok"),
        (20, 39.9, "bad"), (20, 40, "warn"), (20, 100, "warn"),
    ],
)  # fmt: skip
def test_one_metric_is_red_below_twice_its_threshold_and_yellow_below_ten_times(
    threshold: float, average: float, level: str
) -> None:
    assert metric_level(average, threshold) == level


@pytest.mark.parametrize(
    ("threshold", "average", "level"),
    [
        (5, 9.9, "bad"), (5, 10, "warn"), (5, 14.9, "warn"), (5, 15, "ok"),
        (1, 1.9, "bad"), (1, 2, "warn"), (1, 9.9, "warn"), (1, 10, "ok"),
        (20, 24.9, "bad"), (20, 25, "warn"), (20, 29.9, "warn"), (20, 30, "ok"),
    ],
)  # fmt: skip
def test_a_check_is_near_a_high_threshold_only_within_five_and_ten_percent(
    threshold: float, average: float, level: str
) -> None:
    assert use_level(check("and", cpu=threshold), [average]) == level
    assert use_level(check("or", cpu=threshold), [average]) == level


def test_of_several_metrics_the_best_or_the_worst_decides() -> None:
    both = {"cpu": 5, "mem": 5}
    assert use_level(check("and", **both), [1, 90]) == "ok", "it takes both to end it"
    assert use_level(check("or", **both), [1, 90]) == "bad", "it takes one of them"
    assert use_level(check("or", **both), [12, 90]) == "warn"
    assert use_level(check("or", **both), [None, 90]) == "ok", "what is not known ends nothing"
    assert use_level(check("or", **both), [None, None]) is None
    assert use_level(check("and"), []) is None


async def test_the_list_of_what_is_over_says_which_check_ended_it(tmp_path: Path) -> None:
    away = [{"name": "local", "base_url": "unix:///nobody/answers.sock"}]
    async with idle(tmp_path, {"network": "30m"}, agents=away) as one:
        row, reason = f'id="s-{one.id}"', "Nobody had used it for 30 minutes."
        over = (await one.service.call("GET", "?state=over", "alice")).json
        assert row not in over
        one.says(used=0)
        await one.rounds(HOUR)
        ended = one.session
        assert ended.reason_code == "idle_network"
        one.service.store.move(  # as where its container is gone
            one.id, Status.TERMINATED, phase=Phase.TERMINATE, now=utcnow(),
            reason_code=ended.reason_code, reason=ended.reason,
        )  # fmt: skip
        over = (await one.service.call("GET", "?state=over", "alice")).json
        assert row in over
        (shown,) = [part for part in over.split("<tr")[1:] if row in part]
        assert reason in shown.partition("</tr>")[0]
        live = (await one.service.call("GET", "", "alice")).json
        assert row not in live
