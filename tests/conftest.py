"""What holds for all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Tests start hundreds of Pythons: where this is set, each would compile our code anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A slow moment of the machine is no defect: bounds on time are told by the tests that mean them.
settings.register_profile("ours", deadline=None, print_blob=True, max_examples=50)
# HYPOTHESIS_PROFILE=thorough looks for longer, as one does after a change of the rules.
settings.register_profile("thorough", settings.get_profile("ours"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ours"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for servers comes first, so that no worker is alone with it at the end."""
    items.sort(key=_weight, reverse=True)


def _weight(item: pytest.Item) -> tuple[bool, bool]:
    return item.get_closest_marker("docker") is not None, "/hub/" in item.nodeid
