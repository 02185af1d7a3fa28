"""A schedule of faults on a real Hub and two Docker daemons: people, kills, what must hold."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests
from docker.errors import DockerException

from ..hub.harness import Hub, T
from ..hub.second_engine import SecondEngine
from ..hub.test_worker import FINAL, call
from .plan import Fault, Plan, Wish
from .schedule import SESSIONS

AT_ONCE = 4  # sessions of one person that are not over
PATIENCE = 120.0  # seconds in which no session changes its status
PROXY_DIED = "Failed to start proxy"
NOT_NOW = {502, 503, 504}


class GivenUp(Exception):
    """Something else has failed meanwhile."""


class Real:
    """One run of one plan."""

    def __init__(self, hub: Hub, engine: SecondEngine, plan: Plan, tokens: dict[str, str]) -> None:
        self.hub, self.engine, self.plan, self.tokens = hub, engine, plan, tokens
        self.witness = hub.directory / "witness"
        self.story: list[str] = []
        self.refused: dict[str, str] = {}  # by the wish's name
        self.ends: dict[str, float] = {}  # by a session's name, when its end was first asked for
        self.done = 0  # faults
        self._began = time.monotonic()
        self._changes = self._all_changes()
        self._failed, self._over = threading.Event(), threading.Event()
        self._failure: BaseException | None = None  # the first, of which the others come
        self._hub_is_mine = threading.Lock()

    def run(self) -> None:
        """People and kills, until all is as it should be, or for too long."""
        by_owner: dict[str, list[Wish]] = {}
        for wish in self.plan.wishes:
            by_owner.setdefault(wish.owner, []).append(wish)
        with ThreadPoolExecutor(2 * SESSIONS) as pool:
            self._pool = pool
            self._people = [
                pool.submit(self._guarded, self._person, some) for some in by_owner.values()
            ]
            kills = pool.submit(self._guarded, self._kill_some)
            pool.submit(self._guarded, self._keep_hub)
            pool.submit(self._guarded, self._come_to_an_end, [*self._people, kills])
            self._over.wait()
        if self._failure is not None:
            raise self._failure

    def _come_to_an_end(self, work: Sequence[Future[None]]) -> None:
        try:
            for each in work:
                each.result()
            self.until("all to be over or to run", lambda: safely(self.unsettled) == [], 1)
            self.say("all is over or runs")
            for row in self.rows().values():
                self.end(row, "call")  # once more, where it is over
            self.until("all to be as it should", lambda: safely(self.problems) == [], 1)
            self.say("all is as it should be")
        finally:
            self._over.set()

    def say(self, text: str) -> None:
        self.story.append(f"{time.monotonic() - self._began:6.2f} {text}")

    def until(self, what: str, check: Callable[[], T], every: float = 0.2) -> T:
        """The first true value of `check`. Fails where nothing goes on any more: how long a whole
        schedule takes is a matter of how busy the machine is, and pytest's own timeout bounds it.
        """
        changes, deadline, value = -1, 0.0, None
        while True:
            if value := check():
                return value
            if (now := self.changes()) != changes:
                changes, deadline = now, time.monotonic() + PATIENCE
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing went on, waiting for {what}; last: {value!r}")
            if self._failed.wait(every):
                raise GivenUp(what)

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            if not self._failed.is_set():
                self._failure = error
            self._failed.set()
            raise

    # ---- kills --------------------------------------------------------------------------------

    def _all_changes(self) -> int:
        rows = self.hub.rows("select count(*) as n from history where to_status is not null")
        return int(rows[0]["n"]) if rows else 0

    def changes(self) -> int:
        """How many changes of a session's status there have been."""
        return self._all_changes() - self._changes

    def _has_come(self, fault: Fault) -> bool:
        return self.changes() >= fault.at or all(person.done() for person in self._people)

    def _kill_some(self) -> None:
        for number, fault in enumerate(self.plan.faults):
            self.until(f"fault {number}", lambda fault=fault: self._has_come(fault), 0.01)
            for what in fault.kills:
                self.say(f"kill -9 of {what} at {fault.at}")
                getattr(self, f"kill_{what}")()
            self.done += 1

    def _keep_hub(self) -> None:
        """As systemd does: a Hub ends by itself where its proxy dies while it starts."""
        while not self._over.wait(0.2):
            with self._hub_is_mine:
                assert self.hub.process is not None
                if self.hub.process.poll() is not None:
                    assert PROXY_DIED in self.hub.log_text()[-3000:], self.hub.log_text()[-3000:]
                    self.say("the Hub ended without its proxy")
                    self.hub.start(wait=False)

    def kill_hub(self) -> None:
        with self._hub_is_mine:
            self.hub.kill()
            self.hub.start(wait=False)

    def kill_dockerd(self) -> None:
        self.until("a Docker daemon", self.engine.answers)
        self.engine.kill()
        self.engine.start(wait=False)

    def kill_proxy(self) -> None:
        path = self.hub.directory / "jupyterhub-proxy.pid"

        def proxy() -> int | None:
            pid = int((path.read_text() if path.exists() else "").split()[:1][0] or 0)
            return pid if pid and b"proxy" in _command(pid) else None

        os.kill(self.until("a proxy", lambda: safely(proxy)), signal.SIGKILL)

    def kill_service(self) -> None:
        for pid in self.until("a service", self.hub.services):
            os.kill(pid, signal.SIGKILL)

    # ---- people -------------------------------------------------------------------------------

    def _person(self, wishes: Sequence[Wish]) -> None:
        ends: list[Future[None]] = []
        owner = wishes[0].owner
        for wish in wishes:
            self.until("room for one more", lambda: len(self.live(owner)) < AT_ONCE)
            self._launch(wish)
            if wish.ends:
                ends += [self._pool.submit(self._guarded, self._end, wish, name)
                         for name in wish.names]  # fmt: skip
        for end in ends:
            end.result()

    def rows(self) -> dict[str, dict[str, Any]]:
        """The plan's sessions by name."""
        names = {name for wish in self.plan.wishes for name in wish.names}
        rows = [row for row in self.hub.sessions() if row["name"] in names]
        twice = [name for name, n in Counter(row["name"] for row in rows).items() if n > 1]
        assert not twice, twice
        return {row["name"]: row for row in rows}

    def live(self, owner: str) -> list[str]:
        rows = self.rows().values()
        return [r["name"] for r in rows if r["owner"] == owner and r["status"] not in FINAL]

    def _asked(self, method: str, path: str, owner: str, **more: Any) -> requests.Response | None:
        """An answer, or None where there was none and nobody knows what became of the call."""
        try:
            if path.startswith("users/"):
                reply = self.hub.call(method, path, **more)
            else:
                reply = call(self.hub, method, path, self.tokens[owner], **more)
        except requests.RequestException as error:
            self.say(f"{method} {path}: {type(error).__name__}")
            return None
        self.say(f"{method} {path}: {reply.status_code} {reply.text[:200]!r}")
        # A proxy that its Hub has not told all routes yet has the Hub answer, by a page that says
        # 403 or 404, or has no answer itself. The service's own errors are JSON.
        page = reply.status_code >= 400 and "json" not in reply.headers.get("Content-Type", "")
        return None if page or reply.status_code in NOT_NOW else reply

    def _launch(self, wish: Wish) -> None:
        def launched() -> bool:
            if wish.names[0] in self.rows():
                return True  # the answer was lost
            if wish.by_page:
                path = f"users/{wish.owner}/servers/{wish.name}"
                reply = self._asked("POST", path, wish.owner, json=wish.options)
                return reply is not None and reply.status_code in {201, 202, 400}
            reply = self._asked("POST", "api/sessions", wish.owner, json=wish.options)
            if reply is not None and reply.status_code in {400, 409}:
                self.refused[wish.name] = reply.text
            assert reply is None or reply.status_code in {201, 400, 409}, reply.text
            return reply is not None

        self.until(f"{wish.name} to be launched", launched, 0.5)

    def _end(self, wish: Wish, name: str) -> None:
        if wish.name in self.refused:
            return
        row = self.until(f"{name} to be there", lambda: self.rows().get(name))
        if wish.when == "running":
            wanted = {"RUNNING", *FINAL}
            self.until(f"{name} to run", lambda: self.rows()[name]["status"] in wanted)
        self.end(row, wish.ends)

    def end(self, row: dict[str, Any], how: str) -> None:
        """Ends a session as somebody who tries until it is answered."""
        owner, path = row["owner"], f"api/sessions/{row['id']}" + "?force=1" * (how == "force")
        self.ends.setdefault(row["name"], time.time())

        def ended() -> bool:
            if how == "page":  # and by a call, for of one that waits the Hub knows nothing
                self._asked("DELETE", f"users/{owner}/servers/{row['server_name']}", owner)
            reply = self._asked("DELETE", path, owner)
            assert reply is None or reply.status_code in {202, 409}, reply.text
            return reply is not None and reply.status_code == 202

        self.until(f"{row['name']} to be ended", ended, 0.5)

    # ---- what must hold -----------------------------------------------------------------------

    def unsettled(self) -> list[str]:
        """What neither is over nor runs because nobody ends it."""
        wrong, rows = [], self.rows()
        for wish in self.plan.wishes:
            for row in (rows[name] for name in wish.names if name in rows):
                if row["status"] in FINAL:
                    continue
                server = self.hub.server(row["owner"], row["server_name"])
                stays = wish.exit_code is None and not wish.ends
                if not (stays and row["status"] == "RUNNING" and server.get("ready")):
                    wrong.append(f"{row['name']} is {row['status']}, the Hub says {server}")
        return wrong

    def problems(self) -> list[str]:
        """What does not hold now, when all sessions should be over."""
        rows = self.rows()
        names = {n for w in self.plan.wishes if w.name not in self.refused for n in w.names}
        wrong = [f"{name} is not there" for name in names - rows.keys()]
        wrong += [f"{n} is {r['status']}" for n, r in rows.items() if r["status"] not in FINAL]
        wrong += [f"{a} is held" for a in self.hub.held()]
        label = {"label": f"backendai.hub={self.hub.hub_id}"}
        for client in (self.hub.docker, self.engine.client()):
            for box in client.containers.list(all=True, filters=label, ignore_removed=True):
                wrong.append(f"container {box.name} is left")
            wrong += [f"volume {v.name} is left" for v in client.volumes.list(filters=label)]
        for owner in self.tokens:
            servers = self.hub.call("GET", f"users/{owner}").json()["servers"]
            wrong += [f"the Hub has {owner}'s server {name}" for name in servers]
        return wrong

    def wrong_results(self) -> list[str]:
        """What is not true of what sessions came to."""
        rows, wrong = self.rows(), []
        for wish in self.plan.wishes:
            for row in (rows[name] for name in wish.names if name in rows):
                if problem := self._of_one(wish, row):
                    wrong.append(f"{row['name']}: {problem}; {_told(row)}")
        return wrong

    def _of_one(self, wish: Wish, row: dict[str, Any]) -> str:
        seen = self.witness / row["id"]
        lines = seen.read_text().split() if seen.exists() else []
        if lines not in ([], ["began"], ["began", "ended"]):
            return f"its command did {lines}"
        if wish.exit_code is None:
            return "" if row["result"] == "undefined" else "it has no command to have a result of"
        code, result = row["exit_code"], "failure" if wish.exit_code else "success"
        # Where its end is asked for in the moment between its last word and its exit, that counts.
        by_itself = "ended" in lines and seen.stat().st_mtime + 0.5 < self.ends.get(
            row["name"], time.time()
        )
        if by_itself and (code, row["result"]) != (wish.exit_code, result):
            return f"its command ended with {wish.exit_code}"
        if row["result"] in {"success", "failure"} and (code != wish.exit_code or not lines):
            return f"its command ends with {wish.exit_code} and did {lines}"
        if wish.ends:
            return ""
        if row["reason_code"] == "dependency_failed":
            (before,) = [r for r in self.rows().values() if r["name"] in wish.options["depends_on"]]
            return "what it depends on did succeed" if before["result"] == "success" else ""
        if "ended" not in lines:
            return "" if self._given_up(row) else "its command was not run to its end"
        log = call(self.hub, "GET", f"api/sessions/{row['id']}/logs?kind=command",
                   self.tokens[wish.owner]).text  # fmt: skip
        return "" if log.splitlines().count("once") == 1 else f"its log is {log!r}"

    def _given_up(self, row: dict[str, Any]) -> bool:
        """Whether it was tried as often as it may be."""
        query = "select sum(attempts) as n from history where session_id = ? and result = ?"
        (found,) = self.hub.rows(query, row["id"], "GIVE_UP")
        return row["status"] == "ERROR" and bool(found["n"])

    def histories(self) -> list[str]:
        """What the database has to say, for whoever looks for the reason."""
        ids = {row["id"]: name for name, row in self.rows().items()}
        return [
            f"{ids[h['session_id']]}: {h['created_at'][14:23]} {h['phase']} {h['from_status']} "
            f"{h['to_status']} {h['result']} {h['error_code']} {h['message']}"
            for h in self.hub.rows("select * from history order by session_id, id")
            if h["session_id"] in ids
        ]


def _told(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {row[name]}" for name in
                     ("id", "agent", "status", "reason_code", "result", "exit_code"))  # fmt: skip


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def safely(ask: Callable[[], T]) -> T | None:
    """What is asked for; None while there is nobody or nothing to give it."""
    try:
        return ask()
    except (requests.RequestException, DockerException, OSError, KeyError, IndexError, ValueError):
        return None
