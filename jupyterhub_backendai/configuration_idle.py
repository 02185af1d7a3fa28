"""What the configuration says of sessions that are not used, or are too old."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent

from pydantic import TypeAdapter, ValidationError
from traitlets import Dict, HasTraits, List, Unicode

from .configuration_values import read_as, wrong
from .model.catalog import Catalog
from .model.idle import IdleRules, Span
from .model.moments import limit_words
from .model.policy import Policies
from .model.usage import KEPT

_SPAN: TypeAdapter[int] = TypeAdapter(Span)
DAY = 86400
MOST_KEPT = max(KEPT.values())  # seconds; a window is read back from that after a restart
LEAST_SAMPLES = 4  # of a window; an average of fewer says nothing


class IdleTraits(HasTraits):
    """These traits of `c.BackendAI`."""

    idle = Dict(
        help=dedent(
            """
            End sessions that are too old or not used, on the whole site. Policies and resource
            groups may have an `idle` of their own; each is judged by itself, so the strictest
            counts. Keys:

            * `lifetime`: ends a session that is older, used or not.
            * `network`: ends a session that nobody has used for so long, by a browser, an app or
              SSH; a computation that runs is no use. With more to say: `timeout`, `grace` (at
              the start) and `polling` (`True`: an open page that only asks by itself is use).
            * `utilization`: ends a session whose containers used less than `thresholds` (percent
              of what was granted, of `cpu`, `mem`, `gpu`, `gpu_mem`) on average over `window`;
              of all of them (`operator` `"and"`) or of any (`"or"`). Nothing counts in the first
              `grace`, those of GPUs only where a session has one, and what is not known never
              ends a session.

            Batch sessions have no network check. Example::

                c.BackendAI.idle = {
                    "lifetime": "7d",
                    "network": {"timeout": "4h", "grace": "30m"},
                    "utilization": {
                        "window": "2h",
                        "grace": "30m",
                        "thresholds": {"cpu": 5, "gpu": 5},
                    },
                }
            """
        ),
    ).tag(config=True)

    idle_warnings = List(
        Unicode(),
        default_value=["1h", "10m"],
        help="How long before idle checks end a session its owner is warned, once for each; of "
        "`network` and `utilization` after half of the timeout or window at the earliest, so with "
        "a `network` of `10m` five minutes before. No session is ended with less notice than the "
        "last of these, or than that half where it is shorter. Example: "
        '`c.BackendAI.idle_warnings = ["2h", "30m", "5m"]`.',
    ).tag(config=True)


def read_idle(given: IdleTraits) -> IdleRules:
    """The rules of the site. Raises `ConfigurationError`."""
    return read_as("idle", dict(given.idle), IdleRules)


def read_warnings(given: IdleTraits) -> tuple[int, ...]:
    """`idle_warnings` in seconds, the longest first. Raises `ConfigurationError`."""
    found = []
    for index, text in enumerate(given.idle_warnings):
        try:
            found.append(_SPAN.validate_python(text))
        except ValidationError:
            raise wrong(
                f"idle_warnings[{index}]", text, "It is no length of time.",
                'Write how long before the end, such as "30m" or "2h".',
            ) from None  # fmt: skip
    return tuple(sorted(set(found), reverse=True))


def check_idle(given: IdleTraits, catalog: Catalog, policies: Policies, interval: float) -> None:
    """Raises `ConfigurationError` for the first of all rules that makes no sense. `interval`:
    seconds between two samples of use."""
    read_warnings(given)
    # An environment may have its sessions live longer than the rules say.
    least_life = max((one.idle_minimum.lifetime or 0 for one in catalog.environments), default=0)
    for place, rules in _all_rules(read_idle(given), catalog, policies):
        _check(place, rules, interval, least_life)


def _check(place: str, rules: IdleRules, interval: float, least_life: int) -> None:
    network, use = rules.network, rules.utilization
    if use is not None and use.window < LEAST_SAMPLES * interval:
        raise wrong(
            f"{place}.utilization.window", use.window,
            f"Use is sampled every {interval:g} seconds, and {LEAST_SAMPLES} samples are needed.",
            f"Write at least {LEAST_SAMPLES * interval:g} seconds, or shorten usage_interval.",
        )  # fmt: skip
    if network is not None and network.timeout < interval:
        raise wrong(
            f"{place}.network.timeout", network.timeout,
            f"Sessions are looked at every {interval:g} seconds.",
            f"Write at least {interval:g} seconds.",
        )  # fmt: skip
    if use is not None and use.window > MOST_KEPT:
        raise wrong(
            f"{place}.utilization.window", use.window,
            f"What sessions used is kept for {limit_words(MOST_KEPT)}.",
            f"Write at most {MOST_KEPT // DAY}d.",
        )  # fmt: skip
    if rules.lifetime is not None:
        _check_life(place, rules, max(rules.lifetime, least_life))


def _check_life(place: str, rules: IdleRules, life: int) -> None:
    """A check that ends nothing before the lifetime does is none. `life`: its most seconds."""
    network, use = rules.network, rules.utilization
    spans = []
    if network is not None:
        spans.append(("network", "timeout", network.timeout, network.grace))
    if use is not None:
        spans.append(("utilization", "window", use.window, use.grace))
    for name, limit, seconds, grace in spans:
        if grace + seconds >= life:
            part, value = ("grace", grace) if grace >= life else (limit, seconds)
            raise wrong(
                f"{place}.{name}.{part}", value,
                f"A session is ended after {limit_words(life)} by its lifetime, and this check "
                f"ends none before {limit_words(grace + seconds)} ({limit} and grace).",
                f"Write a shorter {part}, or a longer lifetime.",
            )  # fmt: skip


def _all_rules(
    site: IdleRules, catalog: Catalog, policies: Policies
) -> Iterator[tuple[str, IdleRules]]:
    yield "idle", site
    yield "default_policy.idle", policies.default.idle
    for trait, named in (("user_policies", policies.users), ("group_policies", policies.groups)):
        for name, policy in named.items():
            yield f"{trait}[{name!r}].idle", policy.idle
    for index, group in enumerate(catalog.resource_groups):
        yield f"resource_groups[{index}].idle", group.idle
