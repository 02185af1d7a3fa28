"""Ways to apps: what is open, which port it has, and that it ends with its session."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select
from store_samples import after, end, run_pass, start, submit

from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.status import Phase, Status
from jupyterhub_backendai.store import (
    NotFound,
    Pool,
    Session,
    SessionResult,
    Store,
    Wanted,
    Way,
    schema,
)
from jupyterhub_backendai.store.database import Database
from jupyterhub_backendai.store.tables import KERNELS, WAYS
from jupyterhub_backendai.store.ways import Limits

POOL = Pool(30000, 30002, 60)


def running(store: Store, name: str = "train") -> Session:
    session = submit(store, name)
    run_pass(store)
    start(store, session.id, 1)
    store.set_kernel(session.id, address="172.17.0.5:8888", apps_key="hush")
    return store.get(session.id)


def port(
    store: Store, session: Session, app: str, wanted: int | None = None, seconds: float = 2,
    busy: tuple[int, ...] = (), pool: Pool = POOL,
) -> Way:  # fmt: skip
    asked = Wanted(session.id, app, "ana", "tcp", pool, wanted)
    return store.open_way(asked, now=after(seconds), busy=busy)[0]


def test_a_way_is_opened_once_and_closed(store: Store) -> None:
    session = running(store)
    wanted = Wanted(session.id, "mlflow", "ana")
    seq = store.seq()
    way, is_new = store.open_way(wanted, now=after(2))
    assert (is_new, way.kind, way.number, way.opened_by) == (True, "public", None, "ana")
    assert len(way.id) == 26
    assert way.id.isalnum()
    assert way.id == way.id.lower()
    assert store.seq() > seq, "whoever follows the changes is told"
    assert store.open_way(wanted, now=after(3)) == (way, False)
    (found,) = store.open_ways()
    assert (found.way, found.owner, found.address, found.apps_key) == (
        way, "ana", "172.17.0.5:8888", "hush",
    )  # fmt: skip
    assert found.running
    assert found == store.open_way_of(way.id)
    assert "hush" not in repr(found) + repr(store.kernels(session.id))
    seq = store.seq()
    store.close_way(way.id, by="ana", reason="Not needed.", now=after(4))
    store.close_way(way.id, by="eve", reason="Once more.", now=after(5))
    assert store.seq() > seq
    assert store.open_ways() == store.ways_of(session.id) == []
    for call in (
        store.open_way_of,
        lambda id: store.close_way("x", by="", reason="", now=after(1)),
    ):
        with pytest.raises(NotFound):
            call(way.id)
    again, is_new = store.open_way(wanted, now=after(6))
    assert (is_new, again.id != way.id) == (True, True)


def test_ports_are_preferred_next_and_not_given_away_at_once(store: Store) -> None:
    session = running(store)
    assert port(store, session, "a").number == 30000
    assert port(store, session, "b", 30000).number == 30001, "the next one"
    assert port(store, session, "b", 30000).wanted == 30000, "which is the same way"
    third = port(store, session, "c", 30002)
    with pytest.raises(RequestError, match="All ports from 30000 to 30002"):
        port(store, session, "d")
    store.close_way(third.id, by=None, reason="", now=after(10))
    wide = Pool(30000, 30003, 60)
    assert port(store, session, "d", 30002, seconds=69, pool=wide).number == 30003
    assert port(store, session, "e", 30002, seconds=71, pool=wide).number == 30002


def test_where_all_others_are_in_use_it_is_the_one_that_was_closed_first(store: Store) -> None:
    """Whoever opens and closes leaves no one without."""
    session = running(store)
    ways = [port(store, session, app) for app in "abc"]
    for seconds, way in ((10, ways[1]), (11, ways[0]), (12, ways[2])):
        store.close_way(way.id, by=None, reason="", now=after(seconds))
    other = running(store, "other")
    for expected, app in ((30001, "x"), (30000, "y"), (30002, "z")):
        assert port(store, other, app, 30002, seconds=13).number == expected
    with pytest.raises(RequestError, match="All ports from 30000 to 30002 are in use"):
        port(store, other, "last", seconds=13)


def test_a_port_that_cools_down_counts(store: Store) -> None:
    session, wide = running(store), Pool(30000, 30020, 60)
    limits = Limits(session=2, owner=3)

    def opened(session: Session, app: str, seconds: float, pool: Pool | None = wide) -> Way:
        asked = Wanted(session.id, app, "ana", "tcp", pool)
        return store.open_way(asked, now=after(seconds), limits=limits)[0]

    for _ in range(2):
        way = opened(session, "a", 2)
        store.close_way(way.id, by="ana", reason="", now=after(3))
    with pytest.raises(RequestError, match="This session has had 2 ways in a short time"):
        opened(session, "a", 4)
    assert opened(session, "web", 4, None).kind == "public", "that needs no port"
    other = running(store, "other")
    with pytest.raises(RequestError, match="ana has had 3 ways in a short time"):
        opened(other, "a", 5)
    assert opened(other, "a", 64).number == 30000
    opened(other, "b", 65)
    with pytest.raises(RequestError, match="ana has 3 open ways already"):
        opened(session, "c", 65)


def test_closed_ways_are_forgotten_after_a_day(store: Store) -> None:
    session, day = running(store), 86_400
    for seconds in (2, day / 2):
        way = port(store, session, "a", seconds=seconds)
        store.close_way(way.id, by=None, reason="", now=after(seconds + 1))
    port(store, session, "b", seconds=day + 10)
    with store._db.read() as db:
        assert len(db.execute(select(WAYS)).all()) == 2


def test_a_port_of_another_program_is_left_out(store: Store) -> None:
    session = running(store)
    way = port(store, session, "a", 30001, busy=(30001,))
    assert (way.number, way.wanted) == (30002, 30001)
    moved = store.take_another_port(way.id, POOL, {30002}, now=after(3))
    assert (moved.id, moved.number) == (way.id, 30000)
    assert store.ways_of(session.id) == [moved]
    store.close_way(way.id, by=None, reason="", now=after(3))
    with pytest.raises(NotFound):
        store.take_another_port(way.id, POOL, (), now=after(4))


def test_two_never_get_the_same_port(store: Store) -> None:
    session, pool = running(store), Pool(30000, 30015, 60)
    with ThreadPoolExecutor(8) as threads:
        ways = list(threads.map(lambda n: port(store, session, f"a{n}", pool=pool), range(16)))
    assert {way.number for way in ways} == set(range(30000, 30016))


def test_it_ends_with_its_session_in_the_same_step(store: Store) -> None:
    session = running(store)
    way = port(store, session, "a")
    end(store, session.id, 5, SessionResult.UNDEFINED)
    assert store.open_ways() == []
    with store._db.read() as db:
        row = db.execute(select(WAYS).where(WAYS.c.id == way.id)).one()
        assert (row.closed_at, row.closed_by, row.reason) == (after(5), None, "The session ended.")
        assert db.scalars(select(KERNELS.c.apps_key)).all() == [None]
    with pytest.raises(RequestError, match="it is TERMINATED"):
        port(store, session, "a")
    assert store.forget(after(100), 10) == 1


def test_only_what_runs_has_ways_and_not_too_many(store: Store) -> None:
    waits = submit(store, "waits")
    with pytest.raises(RequestError, match="it is PENDING"):
        store.open_way(Wanted(waits.id, "a", "ana"), now=after(1))
    with pytest.raises(NotFound):
        store.open_way(Wanted("0" * 32, "a", "ana"), now=after(1))
    store.move(waits.id, Status.CANCELLED, phase=Phase.CANCEL, now=after(1))
    session = running(store)
    for app in ("a", "b", "a"):
        store.open_way(Wanted(session.id, app, "ana"), now=after(2), limits=Limits(session=2))
    with pytest.raises(RequestError, match="2 open ways already"):
        store.open_way(Wanted(session.id, "c", "ana"), now=after(2), limits=Limits(session=2))


def test_sessions_of_a_version_without_ways_go_on(store: Store, database: Database) -> None:
    session = running(store)
    with database.migration() as connection:
        schema.downgrade(connection, "0005")
        schema.upgrade(database, connection)
    (kernel,) = store.kernels(session.id)
    assert (kernel.address, kernel.apps_key) == (None, None)
    (way, _) = store.open_way(Wanted(session.id, "a", "ana"), now=after(2))
    assert store.open_ways()[0].address is None
    assert store.ways_of(session.id) == [way]
