"""What an admin may say of idle checks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from jupyterhub_backendai.model.idle import (
    IdleMinimum,
    IdleRules,
    Keep,
    Network,
    Utilization,
)

CPU = {"cpu": 5}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("30m", 1800), ("1d 6h", 108000), ("90", 90), (90, 90), (90.0, 90), (1.2, 2), (0.001, 1)],
)
def test_a_length_of_time_is_text_or_seconds(value: Any, seconds: int) -> None:
    assert IdleRules(lifetime=value).lifetime == seconds
    assert IdleMinimum(network=value).network == seconds
    network = Network(timeout=value, grace=value)
    assert (network.timeout, network.grace) == (seconds, seconds)
    use = Utilization(window=value, grace=value, thresholds=CPU)
    assert (use.window, use.grace) == (seconds, seconds)
    assert Keep(each=value, total="1w").each == seconds


@pytest.mark.parametrize(
    "value",
    [True, False, -1, "-5m", "", "soon", "1 month", b"5", [5], {}, float("nan"), float("inf"),
     1e300, 10**400, "2y", 367 * 86400],
)  # fmt: skip
def test_what_is_no_length_of_time_is_refused_as_such(value: Any) -> None:
    for rules in (
        {"lifetime": value},
        {"network": {"timeout": value}},
        {"network": {"timeout": 60, "grace": value}},
        {"utilization": {"window": value, "thresholds": CPU}},
    ):
        with pytest.raises(ValidationError):
            IdleRules.model_validate(rules)


@pytest.mark.parametrize("nothing", [0, 0.0, "0", "0s", "0m"])
def test_no_time_at_all_is_a_grace_and_no_limit(nothing: Any) -> None:
    assert Network(timeout=60, grace=nothing).grace == 0
    assert Utilization(window=60, grace=nothing, thresholds=CPU).grace == 0
    for make in (
        lambda: IdleRules(lifetime=nothing),
        lambda: IdleRules(network=nothing),
        lambda: Utilization(window=nothing, thresholds=CPU),
        lambda: IdleMinimum(utilization=nothing),
        lambda: Keep(each=nothing),
    ):
        with pytest.raises(ValidationError, match="leave it out to turn it off"):
            make()


def test_a_network_check_may_be_its_timeout_alone() -> None:
    alone = IdleRules.model_validate({"network": "2h"}).network
    assert alone == Network(timeout=7200, grace=0, polling=False)
    with pytest.raises(ValidationError, match="write a length of time"):
        IdleRules.model_validate({"network": True})


def test_thresholds() -> None:
    use = Utilization(window=60, thresholds={"cpu": 5, "gpu": None, "mem": 100})
    assert dict(use.thresholds) == {"cpu": 5.0, "gpu": None, "mem": 100.0}
    assert use.operator == "and"


@pytest.mark.parametrize(
    "thresholds",
    [{}, {"cpu": None}, {"cpu": None, "gpu_mem": None}, {"cpu": 0}, {"cpu": -1}, {"cpu": 100.1},
     {"cpu": True}, {"cpu": "5"}, {"cpu": float("nan")}, {"cpu": float("inf")}, {"disk": 5},
     {"cpu": 5, "cuda_util": None}, None, 5],
)  # fmt: skip
def test_thresholds_that_make_no_sense_are_refused(thresholds: Any) -> None:
    with pytest.raises(ValidationError):
        Utilization(window=60, thresholds=thresholds)


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (IdleRules, {"lifetimes": "1d"}),
        (IdleRules, {"network": {"timeout": 60, "time": 5}}),
        (IdleRules, {"network": {}}),
        (IdleRules, {"utilization": {"window": 60}}),
        (IdleRules, {"utilization": {"window": 60, "thresholds": CPU, "operator": "xor"}}),
        (IdleMinimum, {"memory": 5}),
        (Keep, {"every": 5}),
        (Keep, {"each": 61, "total": 60}),
        (Keep, {"total": "1h"}),
        (Keep, {"each": "9h"}),
    ],
)
def test_what_is_not_known_or_missing_is_refused(model: Any, values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(values)


def test_nothing_said_is_no_check() -> None:
    assert IdleRules() == IdleRules(lifetime=None, network=None, utilization=None)
    keep = Keep()
    assert (keep.each, keep.total, keep.lifetime) == (7200, 28800, False)
    assert Keep(each=60, total=60).total == 60


def test_what_was_checked_reads_the_same_again() -> None:
    rules = IdleRules.model_validate(
        {
            "lifetime": "1d",
            "network": {"timeout": "2h", "grace": "5m", "polling": True},
            "utilization": {"window": "30m", "operator": "or", "thresholds": {"cpu": 5}},
        }
    )
    assert IdleRules.model_validate(rules.model_dump()) == rules
    assert IdleRules.model_validate_json(rules.model_dump_json()) == rules
