"""The scheduling history: what is one row and what is two."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from store_samples import NOW, after, batch, end, request, run_pass, slots, start, submit

from jupyterhub_backendai.model.status import Phase, Result, Status
from jupyterhub_backendai.model.steps import CHECKS, Step
from jupyterhub_backendai.store import AgentReport, HistoryEntry, SessionResult, Store, SubStep


def note(
    store: Store, session_id: str, result: Result, *, seconds: float = 0, code: str | None = "busy"
) -> None:
    store.note(
        session_id, Phase.PULL, result, now=after(seconds), error_code=code,
        message=f"at {seconds}",
    )  # fmt: skip


def rows(store: Store, session_id: str) -> list[tuple[str, int]]:
    """Result and attempts of each row after the submission, oldest first."""
    return [(h.result.value, h.attempts) for h in reversed(store.history(session_id)[:-1])]


def test_the_same_again_is_one_more_attempt(store: Store) -> None:
    session = submit(store, "train")
    for seconds in (1, 2, 3):
        note(store, session.id, Result.NEED_RETRY, seconds=seconds)
    assert rows(store, session.id) == [("NEED_RETRY", 3)]
    entry = store.history(session.id)[0]
    assert (entry.message, entry.created_at, entry.updated_at) == ("at 1", after(1), after(3))
    assert (entry.from_status, entry.to_status) == (Status.PENDING, None)


def test_another_result_of_the_same_is_one_more_attempt(store: Store) -> None:
    session = submit(store, "train")
    note(store, session.id, Result.NEED_RETRY)
    note(store, session.id, Result.EXPIRED)
    assert rows(store, session.id) == [("NEED_RETRY", 2)]


def test_a_skip_is_never_an_attempt(store: Store) -> None:
    session = submit(store, "train")
    for result in ("NEED_RETRY", "NEED_RETRY", "SKIPPED", "SKIPPED", "SKIPPED", "NEED_RETRY"):
        note(store, session.id, Result(result))
    assert rows(store, session.id) == [("NEED_RETRY", 2), ("SKIPPED", 3), ("NEED_RETRY", 1)]


def test_another_error_or_phase_is_another_row(store: Store) -> None:
    session = submit(store, "train")
    note(store, session.id, Result.NEED_RETRY)
    note(store, session.id, Result.NEED_RETRY, code="unreachable")
    note(store, session.id, Result.NEED_RETRY, code=None)
    store.note(session.id, Phase.CREATE, Result.NEED_RETRY, now=NOW)
    note(store, session.id, Result.NEED_RETRY, code=None)
    assert rows(store, session.id) == [("NEED_RETRY", 1)] * 5


def test_a_status_change_is_another_row_than_a_try(store: Store) -> None:
    session = submit(store, "train")
    run_pass(store)
    store.move(session.id, Status.PREPARING, phase=Phase.PREPARE, now=NOW)
    note(store, session.id, Result.NEED_RETRY, code=None)
    store.move(session.id, Status.PULLING, phase=Phase.PULL, now=NOW)
    newest, tried = store.history(session.id)[:2]
    assert (tried.to_status, tried.from_status) == (None, Status.PREPARING)
    assert (newest.to_status, newest.from_status) == (Status.PULLING, Status.PREPARING)
    assert newest.message == "pull success"


def test_histories_do_not_mix(store: Store) -> None:
    one, two = submit(store, "one"), submit(store, "two")
    for _ in range(2):
        note(store, one.id, Result.NEED_RETRY)
        note(store, two.id, Result.NEED_RETRY)
    assert rows(store, one.id) == rows(store, two.id) == [("NEED_RETRY", 2)]


def test_many_at_once_are_all_counted(store: Store) -> None:
    session = submit(store, "train")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: note(store, session.id, Result.NEED_RETRY), range(40)))
    assert rows(store, session.id) == [("NEED_RETRY", 40)]


def test_sub_steps_come_back_as_they_were(store: Store) -> None:
    session = submit(store, "train")
    steps = (
        SubStep("check_image", Result.SUCCESS, started_at=NOW, ended_at=after(0.5)),
        SubStep("pull_image", Result.FAILURE, "image_missing", "There is no such image.", NOW),
    )
    store.note(session.id, Phase.PULL, Result.NEED_RETRY, now=NOW, sub_steps=steps)
    assert store.history(session.id)[0].sub_steps == steps
    # One more attempt: those of the first stay, as its message does.
    store.note(session.id, Phase.PULL, Result.NEED_RETRY, now=after(1), sub_steps=steps[:1])
    assert store.history(session.id)[0].sub_steps == steps


Told = list[tuple[str, str, str | None]]


def told(entry: HistoryEntry) -> Told:
    """Its sub-steps; all of a pass are of one moment."""
    assert {(s.started_at, s.ended_at) for s in entry.sub_steps} == {(entry.created_at,) * 2}
    return [(step.step, step.result.value, step.error_code) for step in entry.sub_steps]


def passed(*steps: Step) -> Told:
    return [(step.value, "SUCCESS", None) for step in steps]


def test_a_pass_tells_what_it_checked(store: Store) -> None:
    report = AgentReport("a1", "default", slots(4, 8))
    store.report_agents([report], now=NOW)
    first = submit(store, "first", request=request(cpu=3))
    waits = submit(store, "waits", request=request(cpu=2), now=after(1))
    later = submit(store, "later", not_before=after(60), now=after(2))
    never = submit(store, "never", request=request(cpu=5), now=after(3))
    picked = submit(store, "picked", request=request(agent="a1"), now=after(4))
    run_pass(store, 5)
    entries = {s.name: store.history(s.id)[0] for s in (first, waits, later, never, picked)}
    assert told(entries["first"]) == passed(*CHECKS, Step.ALLOCATE)
    chosen = [s.message for s in entries["first"].sub_steps if s.step == Step.SELECT_AGENT.value]
    assert chosen == ["concentrated: a1"]
    assert "asked for: a1" in [step.message for step in entries["picked"].sub_steps]
    assert told(entries["waits"]) == [
        *passed(*CHECKS[:-1]), (Step.SELECT_AGENT.value, "FAILURE", "no_room"),
    ]  # fmt: skip
    assert entries["waits"].sub_steps[-1].message == entries["waits"].message
    assert told(entries["later"]) == [
        *passed(Step.LIMITS, Step.DEPENDENCIES), (Step.START_TIME.value, "FAILURE", "not_before"),
    ]  # fmt: skip
    assert told(entries["never"]) == [(Step.LIMITS.value, "FAILURE", "never_fits")]


def test_a_pass_tells_what_ended_the_wait(store: Store) -> None:
    store.report_agents([AgentReport("a1", "default", slots(4, 8))], now=NOW)
    first = submit(store, "first", request=batch())
    second = submit(store, "second", request=batch(first.id), now=after(1))
    run_pass(store, 2)
    assert told(store.history(second.id)[0])[-1] == (
        Step.DEPENDENCIES.value, "FAILURE", "dependency",
    )  # fmt: skip
    start(store, first.id, 3)
    end(store, first.id, 4, SessionResult.FAILURE)
    run_pass(store, 5)
    assert told(store.history(second.id)[0]) == [
        (Step.DEPENDENCIES.value, "FAILURE", "dependency_failed")
    ]


def test_any_text_can_be_noted(store: Store) -> None:
    """Messages quote what other programs say."""
    session = submit(store, "train")
    store.note(session.id, Phase.PULL, Result.STALE, now=NOW, message="a\x00b \ud800 ü")
    assert store.history(session.id)[0].message == "a\ufffdb ? ü"
    moved = store.move(session.id, Status.ERROR, phase=Phase.PULL, now=NOW, reason="\x00")
    assert moved.reason == "\ufffd"
