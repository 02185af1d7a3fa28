"""Images that users make, and the making of them: who may, how many, and how it goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from store_samples import NOW, after, batch, request, run_pass, slots, start, submit

from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.images import CommitStatus, ImageStatus, reference_of
from jupyterhub_backendai.model.status import Phase, Result, Status
from jupyterhub_backendai.store import (
    AgentReport,
    Commit,
    IllegalCommit,
    Made,
    NotFound,
    Session,
    Store,
    Wish,
)

MADE = Made("sha256:" + "a" * 64, "sha256:" + "b" * 64, 5_000_000, 1_000, "a")


def running(store: Store, name: str, **more: object) -> Session:
    store.report_agents([AgentReport("a", "default", slots(64, 256))], now=NOW)
    session = submit(store, name, **more)
    run_pass(store)
    start(store, session.id, 1)
    return store.get(session.id)


def begin(
    store: Store, session: Session, name: str = "mine", most: int = 3, seconds: float = 0
) -> Commit:
    wish = Wish(name, "ana", "c" * 64)
    return store.begin_commit(session.id, wish, most, reference_of, after(seconds))


def made(store: Store, session: Session, name: str = "mine") -> str:
    commit = begin(store, session, name)
    store.move_commit(commit.id, CommitStatus.COMMITTING, after(1))
    return store.finish_commit(commit.id, MADE, after(2)).id


def codes(error: pytest.ExceptionInfo[RequestError]) -> list[tuple[str, str]]:
    return [(e.field, e.code) for e in error.value.errors]


def test_an_image_is_made_in_steps_that_its_session_tells_of(store: Store) -> None:
    session = running(store, "one1")
    before = store.history(session.id)
    commit = begin(store, session)
    assert (commit.status, commit.is_new, commit.agent) == (CommitStatus.WAITING, True, "a")
    assert commit.reference == f"backendai/base:customized_{commit.image_id}"
    assert store.images_of("ana") == []
    store.move_commit(commit.id, CommitStatus.COMMITTING, after(1))
    store.note_commit(commit.id, size=7000, more_tries=1)
    assert (store.commit(commit.id).size, store.commit(commit.id).tries) == (7000, 1)
    store.move_commit(commit.id, CommitStatus.PUSHING, after(2))
    image = store.finish_commit(commit.id, MADE, after(3))
    assert store.images_of("ana") == [image] == store.all_images()
    assert (image.environment, image.version, image.base) == ("python", "3.11", "jupyter/base:1")
    assert (image.size, image.own, image.agent, image.made_at) == (5_000_000, 1_000, "a", after(3))
    told = store.history(session.id)[: -len(before)]
    assert [(e.phase, e.error_code, e.result) for e in told] == [
        (Phase.COMMIT, "image_made", Result.SUCCESS),
        (Phase.COMMIT, "image_begun", Result.SUCCESS),
    ]
    assert store.commit_of(session.id) == store.commit(commit.id)
    assert store.commits_under_way() == []


def test_it_is_made_of_a_running_interactive_session_once_at_a_time(store: Store) -> None:
    job = running(store, "job1", request=batch())
    with pytest.raises(RequestError) as error:
        begin(store, job)
    assert codes(error) == [("", "batch")]
    waiting = submit(store, "wait1")
    with pytest.raises(RequestError) as error:
        begin(store, waiting)
    assert codes(error) == [("", "not_running")]
    with pytest.raises(NotFound):
        store.begin_commit("f" * 32, Wish("mine", "ana", ""), 3, reference_of, NOW)
    session = running(store, "one1")
    begin(store, session)
    with pytest.raises(RequestError) as error:
        begin(store, session, "other")
    assert codes(error) == [("", "under_way")]
    with pytest.raises(RequestError) as error:
        begin(store, running(store, "two2"))
    assert codes(error) == [("name", "name_under_way")]


def test_the_limit_holds_and_an_image_may_be_made_anew_at_it(store: Store) -> None:
    session = running(store, "one1")
    with pytest.raises(RequestError) as error:
        begin(store, session, most=0)
    assert codes(error) == [("name", "too_many")]
    first, second = made(store, session, "first"), made(store, session, "second")
    with pytest.raises(RequestError) as error:
        begin(store, session, "third", most=2)
    assert codes(error) == [("name", "too_many")]
    assert "You have 2 images, and your limit is 2" in error.value.errors[0].message
    commit = begin(store, session, "second", most=2)
    assert (commit.image_id, commit.is_new) == (second, False)
    assert commit.reference == store.image(second).reference
    store.move_commit(commit.id, CommitStatus.CANCELLED, after(3), message="It was cancelled.")
    store.delete_image(first)
    assert store.image(first).status is ImageStatus.DELETING
    begin(store, session, "third", most=2)


def test_many_who_ask_at_once_stay_within_the_limit(store: Store) -> None:
    sessions = [running(store, f"many{number}") for number in range(6)]
    refusals: list[str] = []

    def ask(number: int) -> bool:
        try:
            begin(store, sessions[number], f"image{number}", most=3)
        except RequestError as error:
            refusals.append(error.errors[0].code)
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(ask, range(6))) == [False] * 3 + [True] * 3
    assert refusals == ["too_many"] * 3


def test_what_is_over_stays_as_it_ended(store: Store) -> None:
    session = running(store, "one1")
    waiting = begin(store, session)
    assert store.cancel_commit(waiting.id, after(1)).status is CommitStatus.CANCELLED
    with pytest.raises(IllegalCommit):
        store.move_commit(waiting.id, CommitStatus.COMMITTING, after(2))
    with pytest.raises(IllegalCommit):
        store.finish_commit(waiting.id, MADE, after(2))
    assert store.images_of("ana") == []
    begun = begin(store, session, seconds=2)
    store.move_commit(begun.id, CommitStatus.COMMITTING, after(3))
    asked = store.cancel_commit(begun.id, after(4))
    assert (asked.status, asked.cancel_asked) == (CommitStatus.COMMITTING, True)
    store.move_commit(begun.id, CommitStatus.FAILED, after(5), error_code="no_room", message="No.")
    assert store.commit_of(session.id) == store.commit(begun.id)
    entry = store.history(session.id)[0]
    assert (entry.result, entry.error_code, entry.message) == (Result.FAILURE, "no_room", "No.")
    assert store.forget_commits(after(2)) == 1
    assert store.commits_of("ana", NOW) == [store.commit(begun.id)]


def test_an_image_is_not_deleted_while_a_session_uses_it(store: Store) -> None:
    session = running(store, "one1")
    image = store.image(made(store, session))
    user = submit(store, "two2", request=request(image=image.reference), now=after(5))
    assert store.image(image.id).used_at == after(5)
    assert store.image_users(image.id) == ["two2"]
    with pytest.raises(RequestError) as error:
        store.delete_image(image.id)
    assert codes(error) == [("", "in_use")]
    store.move(user.id, Status.CANCELLED, phase=Phase.CANCEL, now=after(6))
    store.delete_image(image.id)
    with pytest.raises(RequestError) as error:
        submit(store, "three3", request=request(image=image.reference))
    assert codes(error) == [("image", "unknown")]
    with pytest.raises(RequestError) as error:
        begin(store, session)
    assert codes(error) == [("name", "deleting")]
    store.note_deletion(image.id, "The registry is away.")
    assert store.image(image.id).reason == "The registry is away."
    store.drop_image(image.id)
    store.drop_image(image.id)
    assert store.images_of("ana") == []
    with pytest.raises(NotFound):
        store.delete_image(image.id)


def test_an_image_of_an_image_is_of_the_same_environment(store: Store) -> None:
    first = store.image(made(store, running(store, "one1")))
    own = request(image=first.reference, version=first.version_name)
    session = running(store, "two2", request=own)
    anew = begin(store, session)
    assert (anew.image_id, anew.base, anew.version) == (first.id, "jupyter/base:1", "3.11")
    with pytest.raises(RequestError) as error:
        store.delete_image(first.id)
    assert codes(error) == [("", "in_use")]


def test_of_images_named_by_hand_one_replaces_those_of_the_same_base_only(store: Store) -> None:
    def by_hand(name: str, image: str) -> Session:
        given = request(environment=None, version=None, image=image)
        return running(store, name, request=given)

    torch = store.image(made(store, by_hand("one1", "example/torch:1")))
    assert (torch.environment, torch.base) == (None, "example/torch:1")
    other = begin(store, by_hand("two2", "example/r-base:4"))
    assert (other.is_new, other.base) == (True, "example/r-base:4")
    own = by_hand("three3", torch.reference)
    anew = begin(store, own)
    assert (anew.image_id, anew.base) == (torch.id, "example/torch:1")
    with pytest.raises(RequestError) as error:
        begin(store, by_hand("four4", "example/r-base:4"))
    assert codes(error) == [("name", "name_under_way")]


def test_others_have_their_own(store: Store) -> None:
    made(store, running(store, "one1"))
    other = running(store, "one1", owner="bob")
    image = made(store, other)
    assert [i.id for i in store.images_of("bob")] == [image]
    assert len(store.images_of("ana")) == 1
