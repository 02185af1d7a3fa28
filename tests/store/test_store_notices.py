"""What is kept of notices: each is claimed once, whoever asks, and by whom it was."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from sqlalchemy import func, select
from store_samples import NOW, after, submit

from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import NoticeKey, NoticeState, Store
from jupyterhub_backendai.store.notice_tables import NOTICES

END = 1_800_000_000  # more than an INTEGER of four bytes would keep with fractions cut


def key(session_id: str, channel: str = "mail", warning: int = 600, end: int = END) -> NoticeKey:
    return NoticeKey(session_id, channel, warning, end)


def count(store: Store) -> int:
    with store._db.read() as db:
        return int(db.scalar(select(func.count()).select_from(NOTICES)) or 0)


def test_one_is_claimed_once_by_whoever_is_first(store: Store) -> None:
    this = key(submit(store, "a").id)
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda n: store.claim_notice(this, f"run{n}", NOW), range(6)))
    claimed = [one for one in found if one is not None]
    assert [(one.key, one.state, one.attempts) for one in claimed] == [
        (this, NoticeState.CLAIMED, 1)
    ]
    assert store.notices() == claimed


def test_what_was_not_taken_is_claimed_again_and_what_was_is_not(store: Store) -> None:
    session = submit(store, "a")
    for state, again in (
        (NoticeState.WAITING, True), (NoticeState.SENT, False), (NoticeState.UNSURE, False),
        (NoticeState.REFUSED, False),
    ):  # fmt: skip
        this = key(session.id, state.value)
        assert store.claim_notice(this, "one", NOW) is not None
        store.note_notice(this, "other", NoticeState.SENT, after(1))  # it is not theirs
        store.note_notice(this, "one", state, after(2))
        found = store.claim_notice(this, "two", after(3))
        assert (found is not None and found.attempts == 2) == again
    kept = {one.key.channel: one.state.value for one in store.notices()}
    assert kept.pop("waiting") == "claimed"
    assert kept == {name: name for name in ("sent", "unsure", "refused")}


def test_another_end_channel_or_warning_is_another_notice(store: Store) -> None:
    session = submit(store, "a")
    keys = [
        key(session.id), key(session.id, "webhook"), key(session.id, warning=3600),
        key(session.id, end=END + 1),
    ]  # fmt: skip
    assert all(store.claim_notice(one, "run", NOW) for one in keys)
    assert {one.key for one in store.notices()} == set(keys)


def test_what_an_earlier_run_was_sending_is_not_sent_again(store: Store) -> None:
    session = submit(store, "a")
    mine, theirs = key(session.id), key(session.id, warning=60)
    store.claim_notice(theirs, "before", NOW)
    store.claim_notice(mine, "now", NOW)
    assert store.settle_notices("now", after(1)) == 1
    assert store.settle_notices("now", after(2)) == 0
    states = {one.key: one.state for one in store.notices()}
    assert states == {mine: NoticeState.CLAIMED, theirs: NoticeState.UNSURE}
    assert store.claim_notice(theirs, "now", after(3)) is None


def test_they_go_with_their_session(store: Store) -> None:
    session = submit(store, "a")
    store.claim_notice(key(session.id), "run", NOW)
    store.move(session.id, Status.CANCELLED, phase=Phase.CANCEL, now=NOW)
    assert store.notices() == [], "it is over"
    assert count(store) == 1
    assert store.forget(NOW + timedelta(days=1), 10) == 1
    assert count(store) == 0
    assert store.claim_notice(key(session.id), "run", NOW) is None, "there is no such session"
