"""Sub-steps are taken down as they come to their end, and told in words that its owner may read."""

from __future__ import annotations

import asyncio

import pytest

from jupyterhub_backendai.engine.base import (
    AgentUnreachable,
    ContainerGone,
    EngineError,
    ImageMissing,
)
from jupyterhub_backendai.model.errors import LaunchError
from jupyterhub_backendai.model.status import Result
from jupyterhub_backendai.model.steps import Step
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.steps import Steps


def test_they_are_in_the_order_of_their_ends_and_taken_once() -> None:
    steps, began = Steps(), utcnow()
    with steps.of(Step.CREATE_CONTAINER, "on here"), steps.of(Step.COPY_FILES):
        pass
    inner, outer = steps.taken()
    assert (inner.step, outer.step) == ("copy_files", "create_container")
    assert (outer.result, outer.error_code, outer.message) == (Result.SUCCESS, None, "on here")
    times = [began, outer.started_at, inner.started_at, inner.ended_at, outer.ended_at, utcnow()]
    assert times == sorted(times, key=lambda time: time or began)
    assert steps.taken() == ()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (LaunchError("folder", "A folder is gone."), "folder", "A folder is gone."),
        (ImageMissing("secret"), "image_missing", "cannot be downloaded"),
        (AgentUnreachable("secret"), "agent_unreachable", "does not answer"),
        (ContainerGone("secret"), "container_gone", "no such container"),
        (EngineError("secret"), "engine_error", "The log of the Hub says why"),
        (OSError("secret"), "failed", "The log of the Hub says why"),
        (asyncio.CancelledError(), "interrupted", "broken off"),
    ],
)
def test_what_failed_is_told_and_goes_on(error: BaseException, code: str, words: str) -> None:
    steps = Steps()
    with pytest.raises(type(error)), steps.of(Step.PULL_IMAGE):
        raise error
    (step,) = steps.taken()
    assert (step.result, step.error_code) == (Result.FAILURE, code)
    assert words in step.message
    assert "secret" not in step.message, "what an engine says is for the admin"
