"""Another process with the same database, for tests. `store_worker.py WHAT URL [ARGUMENT...]`."""

from __future__ import annotations

import random
import sys
import threading
from itertools import count

from store_samples import NOW, after, request, run_pass, submit, violations

from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.status import TRANSITIONS, IllegalTransition, Phase, Result, Status
from jupyterhub_backendai.store import Store, sessions
from jupyterhub_backendai.store.history import Outcome


def upgrade(url: str) -> None:
    """Waits for the word, makes the tables and says which Hub they belong to."""
    print("ready", flush=True)
    sys.stdin.readline()
    store = Store(url)
    store.upgrade()
    print(store.hub_id, flush=True)


def churn(url: str, seed: str, steps: str) -> None:
    """Launches, places and ends sessions at random, saying each step. 0 steps: without an end."""
    store, luck = Store(url), random.Random(seed)
    for step in range(int(steps)) if int(steps) else count():
        _step(store, luck, f"s{luck.randrange(8)}", step)
        print(step, flush=True)
    print("violations:", violations(store), flush=True)


def _step(store: Store, luck: random.Random, name: str, step: int) -> None:
    if luck.random() < 0.4:
        try:
            wanted = request(luck.choice([1, 2, 3]), luck.choice([1, 2, 4]))
            submit(store, name, request=wanted, now=after(step))
        except RequestError:
            return  # its name is in use
    elif luck.random() < 0.6:
        run_pass(store, step)
        assert not violations(store)
    else:
        live = store.live()
        if not live:
            return
        session = luck.choice(live)
        to = luck.choice(sorted(TRANSITIONS[session.status] - {Status.SCHEDULED}))
        try:
            store.move(session.id, to, phase=Phase.RECONCILE, now=after(step))
        except IllegalTransition:
            return  # somebody else was faster


def churn_in_threads(url: str, seed: str) -> None:
    """The same without an end in four threads, so that a kill hits open transactions."""
    for number in range(3):
        threading.Thread(target=churn, args=(url, f"{seed}-{number}", "0"), daemon=True).start()
    churn(url, seed, "0")


def half_a_move(url: str, session_id: str) -> None:
    """Does all of a status change but its commit, says so, and stays."""
    store = Store(url)
    outcome = Outcome(Phase.CANCEL, Result.SUCCESS, to_status=Status.CANCELLED)
    with store._db.write(alone=True) as db:
        sessions.move(db, sessions.locked(db, session_id), outcome, now=NOW)
        print("inside", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
