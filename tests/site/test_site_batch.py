"""A batch session's command is let go in its time, and nothing of it is lost at its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from jupyterhub_backendai.engine.base import AgentUnreachable, ContainerGone, EngineError
from jupyterhub_backendai.engine.batch import Ending, Outcome
from jupyterhub_backendai.model.catalog import Catalog
from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.request import Work
from jupyterhub_backendai.model.resolve import Context, resolve
from jupyterhub_backendai.model.slots import GIB, Slots
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.site.batch import attend
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.site.reconcile import follow
from jupyterhub_backendai.site.rules import RULES
from jupyterhub_backendai.site.runtime import Site
from jupyterhub_backendai.store import AgentReport, Session, SessionResult

from ..holdings import holdings

DONE = Outcome(Ending.FINISHED, 0)


class Agent:
    """What a container of a batch session answers, and what is asked of it, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.started: datetime | None = None
        self.outcome: Outcome | None = None
        self.fails: dict[str, Exception] = {}

    def answer(self, what: str, answer: Any) -> Any:
        async def asked(*_: Any, **__: Any) -> Any:
            self.asked.append(what)
            if what in self.fails:
                raise self.fails[what]
            return answer()

        return asked


@pytest.fixture
def agent(site: Site, monkeypatch: pytest.MonkeyPatch) -> Agent:
    agent = Agent()
    answers = {
        "put_go": lambda: None,
        "command_started": lambda: agent.started,
        "outcome": lambda: agent.outcome,
        "save_log": lambda: None,
        "stop_session": lambda: None,
        "remove_session": lambda: 1,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(site.engine, name, agent.answer(name, answer))
    return agent


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    config = Config()
    config.BackendAI.database_url = f"sqlite:///{tmp_path / 'backendai.sqlite'}"
    config.BackendAI.log_directory = str(tmp_path / "logs")
    room = {"cpu": 2, "mem": "4g"}
    nobody = f"unix://{tmp_path}/none.sock"
    config.BackendAI.agents = [{"name": "here", "base_url": nobody, "capacity": room}]
    site = Site.of(config, {})
    site.store.report_agents([AgentReport("here", "default", Slots(2000, 4 * GIB))], now=utcnow())
    yield site
    site.store.close()


@pytest.fixture
def running(site: Site) -> Session:
    """A batch session that has just come to RUNNING."""
    catalog = Catalog(environments=({"name": "python", "image": "python:3"},))  # type: ignore[arg-type]
    request = resolve({}, Context("alice", frozenset(), False, catalog, Policies()))
    request = request.model_copy(update={"type": "batch", "batch": Work(command="true")})
    session = site.store.submit(
        request, owner="alice", owner_groups=[], server_name="s", name="s",
        driver=site.run_id, max_pending=None, now=utcnow(),
    )  # fmt: skip
    site.store.run_pass(site.policies, site.catalog, utcnow())
    site.store.set_kernel(session.id, container_id="c1", agent="here")
    for status, phase in (
        (Status.PREPARING, Phase.PREPARE), (Status.CREATING, Phase.CREATE),
        (Status.RUNNING, Phase.START),
    ):  # fmt: skip
        session = site.store.move(session.id, status, phase=phase, now=utcnow())
    return session


async def test_it_is_let_go_in_its_time(site: Site, agent: Agent, running: Session) -> None:
    later = running.request.model_copy(update={"not_before": utcnow() + timedelta(hours=1)})
    assert await attend(site, replace(running, request=later)) is None
    assert agent.asked == []
    agent.started = utcnow()
    assert await attend(site, running) is None
    assert agent.asked == ["put_go", "command_started", "outcome"]
    session = site.store.get(running.id)
    assert session.batch_started_at == agent.started
    assert await attend(site, session) is None
    assert agent.asked.count("put_go") == 1
    agent.outcome = DONE
    assert await attend(site, session) == DONE
    session = site.store.get(running.id)
    assert (session.status, session.result) == (Status.RUNNING, SessionResult.SUCCESS)
    assert session.exit_code == 0


@pytest.mark.parametrize(
    ("outcome", "result", "code", "reason_code"),
    [
        (DONE, SessionResult.SUCCESS, 0, "task_finished"),
        (Outcome(Ending.FAILED, 3), SessionResult.FAILURE, 3, "task_failed"),
        (Outcome(Ending.KILLED, 137, 9), SessionResult.FAILURE, 137, "task_failed"),
        (Outcome(Ending.TIMED_OUT, -2), SessionResult.FAILURE, -2, "task_timeout"),
        (Outcome(Ending.OUT_OF_MEMORY, 137), SessionResult.FAILURE, 137, "task_failed"),
        (Outcome(Ending.INTERRUPTED), SessionResult.UNDEFINED, 143, "exited"),
    ],
    ids=lambda value: value.ending.value if isinstance(value, Outcome) else "",
)
async def test_an_end_that_nobody_saw_is_known(
    site: Site, agent: Agent, running: Session, outcome: Outcome, result: SessionResult,
    code: int, reason_code: str,
) -> None:  # fmt: skip
    agent.outcome = replace(outcome, started_at=utcnow())
    await site.end(running.id, "exited", "Its container ended by itself. Start it again.", 143)
    assert agent.asked == ["outcome", "stop_session", "outcome", "save_log", "remove_session"]
    session = site.store.get(running.id)
    assert session.status is Status.TERMINATED
    assert (session.result, session.exit_code) == (result, code)
    assert session.reason_code == reason_code
    assert session.batch_started_at == agent.outcome.started_at
    told = [entry for entry in site.store.history(running.id) if entry.message == session.reason]
    assert [entry.to_status for entry in told] == [Status.TERMINATED, Status.TERMINATING]


async def test_a_container_that_is_gone_after_its_command_was_done(
    site: Site, agent: Agent, running: Session
) -> None:
    agent.fails["outcome"] = ContainerGone("gone")
    rule = next(rule for rule in RULES if rule.others == "no running container")
    site.store.mark_batch_ended(running.id, 3, SessionResult.FAILURE)
    await follow(site, site.store.get(running.id), rule)
    session = site.store.get(running.id)
    assert (session.status, session.reason_code) == (Status.TERMINATED, "task_failed")
    assert session.reason == "Its command ended with exit code 3."
    for entry in site.store.history(running.id):
        assert "Start it again" not in entry.message


@pytest.mark.parametrize("year", [1, 1970, 9999])
async def test_no_command_begins_before_its_session_or_tomorrow(
    site: Site, agent: Agent, running: Session, year: int
) -> None:
    agent.started = datetime(year, 12, 31, tzinfo=timezone.utc)
    await attend(site, running)
    found = site.store.get(running.id)
    assert found.running_at is not None
    assert found.batch_started_at is not None
    assert found.running_at <= found.batch_started_at <= utcnow()


async def test_what_cannot_be_noted_holds_up_no_end(
    site: Site, agent: Agent, running: Session
) -> None:
    agent.outcome = Outcome(Ending.FAILED, 2**70)
    await site.end(running.id, "user_requested", "You ended it.")
    session = site.store.get(running.id)
    assert (session.status, session.result) == (Status.TERMINATED, SessionResult.UNDEFINED)
    assert holdings(site.store) == []


async def test_who_ended_it_is_the_reason_and_not_its_last_words(
    site: Site, agent: Agent, running: Session
) -> None:
    agent.outcome = DONE
    await site.end(running.id, "user_requested", "You ended it.")
    session = site.store.get(running.id)
    assert (session.reason_code, session.reason) == ("user_requested", "You ended it.")
    assert session.result is SessionResult.SUCCESS


async def test_nothing_is_removed_before_its_outcome_is_known(
    site: Site, agent: Agent, running: Session
) -> None:
    agent.fails["outcome"] = AgentUnreachable("it does not answer")
    await site.end(running.id, "exited", "It ended.", 1)
    assert site.store.get(running.id).status is Status.TERMINATING
    assert "remove_session" not in agent.asked
    # The reconciler goes on with it; the process dies after the outcome was read.
    agent.fails = {"remove_session": AgentUnreachable("it does not answer")}
    agent.outcome = DONE
    await site.end(running.id, "exited", "It ended.")
    assert site.store.get(running.id).result is SessionResult.SUCCESS
    # Again, when the container is gone.
    agent.fails = {"outcome": ContainerGone("gone")}
    await site.end(running.id, "exited", "It ended.")
    session = site.store.get(running.id)
    assert (session.status, session.result, session.exit_code) == (
        Status.TERMINATED, SessionResult.SUCCESS, 0,
    )  # fmt: skip


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), EngineError("refused")])
async def test_what_cannot_be_kept_holds_up_no_end(
    site: Site, agent: Agent, running: Session, error: Exception
) -> None:
    agent.fails["save_log"] = error
    agent.outcome = DONE
    await site.end(running.id, "user_requested", "You ended it.")
    assert site.store.get(running.id).status is Status.TERMINATED
    assert agent.asked[-1] == "remove_session"


async def test_of_a_container_without_an_id_nothing_is_asked(
    site: Site, agent: Agent, running: Session
) -> None:
    """As a start noted it that was given up while it made its container."""
    site.store.set_kernel(running.id, container_id="", agent="here")
    assert await attend(site, running) is None
    await site.end(running.id, "user_requested", "You ended it.")
    assert agent.asked == ["stop_session", "remove_session"]
    assert site.store.get(running.id).status is Status.TERMINATED
