"""Lists, pages of a history, and what estimates are made from."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from store_samples import (
    CATALOG,
    NOW,
    POLICIES,
    after,
    batch,
    end,
    request,
    run_pass,
    start,
    submit,
)

from jupyterhub_backendai.model.policy import Policies
from jupyterhub_backendai.model.request import SessionRequest
from jupyterhub_backendai.model.status import (
    Phase,
    Result,
    Status,
)
from jupyterhub_backendai.scheduling.estimate import estimate
from jupyterhub_backendai.store import (
    Filter,
    HistoryFilter,
    SessionResult,
    Store,
)


def test_filters_of_the_list(store: Store) -> None:
    for number, name in enumerate(("Train-1", "train_2", "eval%1", "other")):
        submit(store, name, server_name=f"s{number}", now=after(number * 60))

    def names(**wanted: Any) -> list[str]:
        page, total = store.list_sessions(Filter(**wanted), order="submitted_at", descending=False)
        assert len(page) == total
        return [session.name for session in page]

    assert names(name="train") == ["Train-1", "train_2"]
    assert names(name="_") == ["train_2"]
    assert names(name="%") == ["eval%1"]
    assert names(submitted_from=after(60), submitted_until=after(180)) == ["train_2", "eval%1"]
    assert names(name="train", owner="bob") == []


def test_a_page_of_a_history(store: Store) -> None:
    session = submit(store, "train")
    for number in range(5):
        for phase in (Phase.PULL, Phase.CREATE):
            store.note(
                session.id, phase, Result.NEED_RETRY, now=after(number), error_code="slow_100%",
                message=f"Try {number}",
            )  # fmt: skip
    page, total = store.history_page(session.id, limit=3)
    assert total == 11
    assert [(h.phase, h.message) for h in page[:2]] == [
        (Phase.CREATE, "Try 4"),
        (Phase.PULL, "Try 4"),
    ]
    wanted = HistoryFilter(phase=Phase.PULL, result=Result.NEED_RETRY, error_code="slow_100%")
    page, total = store.history_page(
        session.id, wanted, order="created_at", descending=False, limit=2, offset=1
    )
    assert (total, [h.message for h in page]) == (5, ["Try 1", "Try 2"])
    assert store.history_page(session.id, HistoryFilter(message="y 3"))[1] == 2
    assert store.history_page(session.id, HistoryFilter(message="%"))[1] == 0
    assert store.history_page(session.id, HistoryFilter(from_status=Status.RUNNING)) == ([], 0)


def test_estimates_go_by_limits_and_by_what_ran_before(store: Store) -> None:
    old = submit(store, "old", request=request(cpu=4), now=NOW - timedelta(days=1))
    store.run_pass(POLICIES, CATALOG, NOW - timedelta(days=1))
    start(store, old.id, -86400)
    end(store, old.id, -86400 + 600, SessionResult.UNDEFINED)
    ancient = submit(store, "ancient", owner="bob", now=NOW - timedelta(days=50))
    store.move(ancient.id, Status.ERROR, phase=Phase.START, now=NOW - timedelta(days=40))
    lengths = store.lengths(NOW)
    assert lengths.of("ana", "interactive", "python") == (600.0,)
    assert lengths.of("bob", "interactive", "python") == (600.0,), "as others did"
    assert lengths.of("ana", "batch", "python") == ()

    running = submit(store, "running", request=request(cpu=4))
    run_pass(store)
    start(store, running.id, 0)
    limited = submit(store, "limited", request=batch(timeout=300, cpu=4), now=after(1))
    last = submit(store, "last", request=request(cpu=1), now=after(2))
    outlook = store.outlook(POLICIES, CATALOG, after(60))
    assert outlook.ends == {running.id: after(600).timestamp()}
    assert outlook.lasts == {limited.id: 300, last.id: 600}
    assert estimate(outlook, limited.id) == after(600).timestamp()
    assert estimate(outlook, last.id) == after(900).timestamp()
    assert store.estimate(last.id, POLICIES, CATALOG, after(60)) == after(900)
    assert store.estimate(running.id, POLICIES, CATALOG, after(60)) is None, "it does not wait"
    late = store.outlook(POLICIES, CATALOG, after(700))
    assert late.ends == {}, "it has run longer than any before: who knows"
    assert estimate(late, last.id) is None


def test_what_would_happen_to_a_request(store: Store) -> None:
    policies = Policies.model_validate({"groups": {"lab": {"max_sessions": 1}}})

    def told(asked: SessionRequest, *groups: str) -> tuple[str, int, datetime | None]:
        found = store.forecast(
            asked, owner="bob", owner_groups=groups, policies=policies, catalog=CATALOG,
            now=after(60),
        )  # fmt: skip
        start = found.starts_at
        at = None if start is None else datetime.fromtimestamp(start, timezone.utc)
        return found.code, found.ahead, at

    assert told(request()) == ("now", 0, after(60))
    running = submit(store, "running", request=batch(timeout=300, cpu=3))
    store.run_pass(policies, CATALOG, NOW)
    start(store, running.id, 0)
    submit(store, "waits", request=batch(timeout=100, cpu=4), now=after(1))
    assert told(request(cpu=2)) == ("waits", 1, after(400))
    assert told(request(cpu=1)) == ("now", 0, after(60)), "it may pass the large one"
    assert told(request(cpu=50)) == ("never", 0, None)
    assert told(batch(running.id)) == ("waits", 0, after(400)), "the large one is before it"
    reserved = request().model_copy(update={"not_before": after(500)})
    assert told(reserved) == ("waits", 0, after(500))
    submit(store, "mine", owner="bob", request=batch(timeout=1000), now=after(2))
    store.run_pass(policies, CATALOG, after(3))
    code, _, at = told(request(), "lab")
    assert (code, at) == ("waits", after(1160)), "after its own, and the large one that is next"


def test_a_running_batch_session_s_limit_counts_from_its_command(store: Store) -> None:
    session = submit(store, "train", request=batch(timeout=300))
    run_pass(store)
    start(store, session.id, 1)
    store.mark_batch_started(session.id, after(20))
    outlook = store.outlook(POLICIES, CATALOG, after(30))
    assert outlook.ends == {session.id: after(320).timestamp()}


def test_an_end_after_the_calendar_s_is_unknown(store: Store) -> None:
    session = submit(store, "train", request=batch(timeout=300))
    run_pass(store)
    start(store, session.id, 1)
    store.mark_batch_started(session.id, datetime.max.replace(tzinfo=timezone.utc))
    waits = submit(store, "waits", request=batch(timeout=300, cpu=4))
    run_pass(store)
    assert store.get(waits.id).status is Status.PENDING
    assert store.estimate(waits.id, POLICIES, CATALOG, after(60)) is None
