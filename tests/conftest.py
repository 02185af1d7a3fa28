"""What holds for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

# Tests start hundreds of Pythons: where this is set, each would compile our code anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What a script starts in its background ignores these, and so do all that it starts in turn: in a
# terminal of a test Ctrl+C would end nothing.
_USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL}
for _number in _USUAL:
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _USUAL[_number])

# A slow moment of the machine is no defect: bounds on time are told by the tests that mean them.
settings.register_profile("ours", deadline=None, print_blob=True, max_examples=50)
# HYPOTHESIS_PROFILE=thorough looks for longer, as one does after a change of the rules.
settings.register_profile("thorough", settings.get_profile("ours"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ours"))


LOG = 6000  # characters of a Hub's log that are shown when a test fails

# Folders with files that take minutes, most of it waiting for servers.
LONGEST = ["hub", "dockerspawner", "faults", "singleuser", "browser", "gpu", "engine", "store"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first, so that no worker is alone with one at the end."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONGEST.index(folder) if folder in LONGEST else len(LONGEST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What fails in front of a Hub says what that Hub, its service and its proxy wrote last."""
    report = yield
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if not hasattr(value, "log_text"):
                continue
            with suppress(OSError):  # it has not begun
                report.sections.append((f"log of {name}", value.log_text()[-LOG:]))
    return report
