"""What the traits of idle checks refuse: the trait, the value and the remedy are told."""

from __future__ import annotations

from typing import Any

import pytest
from traitlets.config import Config

from jupyterhub_backendai.configuration import BackendAI, read_configuration
from jupyterhub_backendai.model.errors import ConfigurationError


def read(**traits: Any) -> BackendAI:
    return read_configuration(Config({"BackendAI": traits}))


def use(**more: Any) -> dict[str, Any]:
    return {"utilization": {"window": "1h", "thresholds": {"cpu": 5}, **more}}


def test_what_is_read() -> None:
    given = read(idle={"lifetime": "1d", "network": "2h", **use(grace="10m")})
    rules = given.idle_rules()
    assert rules.lifetime == 86400
    assert rules.network is not None
    assert (rules.network.timeout, rules.network.polling) == (7200, False)
    assert rules.utilization is not None
    assert (rules.utilization.grace, rules.utilization.operator) == (600, "and")
    assert given.warnings() == (3600, 600)
    assert read(idle_warnings=["5m", "2h", "5m"]).warnings() == (7200, 300)
    assert read().idle_rules().model_dump(exclude_none=True) == {"then": "end"}
    assert read(idle={"network": "2h", "then": "hibernate"}).idle_rules().then == "hibernate"


@pytest.mark.parametrize(
    ("traits", "trait", "remedy"),
    [
        ({"idle": {"lifetime": "soon"}}, "idle.lifetime", "example"),
        ({"idle": {"lifetime": 0}}, "idle.lifetime", "example"),
        ({"idle": {"lifetim": "1d"}}, "idle.lifetim", "example"),
        ({"idle": {"network": "1h", "then": "stop"}}, "idle.then", "example"),
        ({"idle": {"network": True}}, "idle.network.timeout", "example"),
        ({"idle": {"network": "5s"}}, "idle.network.timeout", "at least 15 seconds"),
        ({"idle": use(window="30s")}, "idle.utilization.window", "at least 60 seconds"),
        ({"idle": use(thresholds={})}, "idle.utilization.thresholds", "example"),
        ({"idle": use(thresholds={"cpu": 0})}, "idle.utilization.thresholds.cpu", "example"),
        ({"idle": use(thresholds={"cpu": 101})}, "idle.utilization.thresholds.cpu", "example"),
        ({"idle": use(thresholds={"ram": 5})}, "idle.utilization.thresholds.ram", "example"),
        ({"idle": use(operator="xor")}, "idle.utilization.operator", "example"),
        (
            {"idle": {"lifetime": "1h", **use(grace="2h", window="5m")}},
            "idle.utilization.grace", "longer lifetime",
        ),
        (
            {"idle": {"lifetime": "1h", **use(window="2h")}},
            "idle.utilization.window", "shorter window, or a longer lifetime",
        ),
        (
            {"idle": {"lifetime": "90m", "network": {"timeout": "1h", "grace": "1h"}}},
            "idle.network.timeout", "shorter timeout, or a longer lifetime",
        ),
        ({"idle": {"lifetime": "4h", "network": "4h"}}, "idle.network.timeout", "lifetime"),
        (
            {"group_policies": {"x": {"idle": {"lifetime": "1h", "network": "2h"}}}},
            "group_policies['x'].idle.network.timeout", "lifetime",
        ),
        ({"idle": use(window="90d")}, "idle.utilization.window", "at most 60d"),
        ({"idle_warnings": ["later"]}, "idle_warnings[0]", "30m"),
        ({"default_policy": {"idle": {"network": "5s"}}}, "default_policy.idle.network", "15"),
        (
            {"user_policies": {"bob": {"idle": {"network": "5s"}}}},
            "user_policies['bob'].idle.network.timeout", "15",
        ),
        (
            {"resource_groups": [{"name": "default", "idle": use(window="10s")}]},
            "resource_groups[0].idle.utilization.window", "60",
        ),
        ({"default_policy": {"keep": {"each": "1d"}}}, "default_policy.keep", "example"),
        ({"usage_interval": 60, "idle": use(window="2m")}, "idle.utilization.window", "240"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_told(traits: dict[str, Any], trait: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(**traits)
    text = str(caught.value)
    assert f"BackendAI.{trait}" in text
    assert remedy in text


def test_rules_of_different_places_may_be_combined() -> None:
    read(
        idle={"lifetime": "1h"},
        default_policy={"idle": {"network": "4h"}},
        group_policies={"x": {"idle": use(window="2h")}},
    )
    # An environment may raise the lifetime.
    slow = {
        "name": "slow", "versions": [{"name": "1", "image": "i:1"}],
        "idle_minimum": {"lifetime": "1d"},
    }  # fmt: skip
    read(idle={"lifetime": "1h", "network": "2h"}, environments=[slow])
    read(idle={"lifetime": "1h", **use(window="50m", grace="9m")})
    read(idle=use(window="60d"))
