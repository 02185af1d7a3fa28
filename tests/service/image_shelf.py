"""Agents whose images are rows in memory, for tests of who may make one and of what goes wrong.

What Docker makes of it is tested with Docker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from jupyterhub_backendai.engine.images import (
    LABEL_IMAGE_ORDER,
    CommitOrder,
    Images,
    Login,
    MadeImage,
    Progress,
    Room,
)
from jupyterhub_backendai.model.images import CommitStatus, reference_of
from jupyterhub_backendai.model.slots import GIB, MIB
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Commit, Made, Wish

from .running import Running, launch
from .ways import make_running

CONTAINER = "c" * 64
BASE_ID = f"sha256:{'b' * 64}"


class Shelf(Images):
    """All agents' images. `errors`: what the next call of a name raises, in turn; `gates`: calls
    that wait to be let go."""

    def __init__(self) -> None:
        self.written = 100 * MIB  # by each session
        self.rooms: Room | None = Room(40 * GIB, 100 * GIB)  # of each agent
        self.trusted: Sequence[str] = ()  # by who asked for the room
        self.images: dict[tuple[str, str], MadeImage] = {}  # by agent and reference
        self.left: dict[str, set[str]] = {}  # orders, by agent
        self.registry: dict[str, str] = {}  # digests that references name, by reference
        self.pushed: set[str] = set()  # digests that the registry has, named or not
        self.arrives = False  # what is pushed is there before the call is over
        self.logins: list[Login | None] = []  # of pushes
        self.unpushed: list[tuple[str, str, Login | None]] = []  # reference, digest, who asked
        self.errors: dict[str, list[Exception]] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.begun: dict[str, asyncio.Event] = {}
        self.calls: list[tuple[str, str]] = []
        self.reports: list[tuple[int, int | None]] = []

    async def _call(self, name: str, what: str) -> None:
        self.calls.append((name, what))
        self.begun.setdefault(name, asyncio.Event()).set()
        if name in self.gates:
            await self.gates[name].wait()
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    def hold(self, name: str) -> asyncio.Event:
        """Has calls of this name wait; the event lets them go."""
        self.begun[name] = asyncio.Event()
        return self.gates.setdefault(name, asyncio.Event())

    def names(self, name: str) -> list[str]:
        """What calls of this name were about."""
        return [what for called, what in self.calls if called == name]

    async def look(self, agent: str, container: str, fresh: bool = True) -> int:
        await self._call("look", container)
        return self.written

    async def room(self, agent: str, images: Sequence[str]) -> Room | None:
        self.trusted = images
        await self._call("room", agent)
        return self.rooms

    async def make(self, agent: str, order: CommitOrder) -> MadeImage:
        self.left.setdefault(agent, set()).add(order.id)
        await self._call("make", order.id)
        labels = {**order.labels, LABEL_IMAGE_ORDER: order.id}
        made = MadeImage(f"sha256:{order.id * 2}", 5 * GIB, 100 * MIB, labels)
        self.images[agent, order.reference] = made
        self.left[agent].discard(order.id)
        return made

    async def clean(self, agent: str, order_id: str) -> None:
        await self._call("clean", order_id)
        self.left.get(agent, set()).discard(order_id)

    async def leftovers(self, agent: str) -> frozenset[str]:
        await self._call("leftovers", agent)
        return frozenset(self.left.get(agent, ()))

    async def listed(self, agent: str) -> Mapping[str, Mapping[str, str]]:
        return {name: made.labels for (at, name), made in self.images.items() if at == agent}

    async def find(self, agent: str, reference: str) -> MadeImage | None:
        await self._call("find", reference)
        return self.images.get((agent, reference))

    async def remove(self, agent: str, reference: str) -> None:
        await self._call("remove", reference)
        self.images.pop((agent, reference), None)

    async def push(
        self, agent: str, reference: str, login: Login | None, progress: Progress
    ) -> str:
        self.logins.append(login)
        for report in self.reports:
            progress(*report)
        digest = f"sha256:{self.images[agent, reference].labels[LABEL_IMAGE_ORDER] * 2}"
        if not self.arrives:
            await self._call("push", reference)
        self.registry[reference] = digest
        self.pushed.add(digest)
        if self.arrives:
            await self._call("push", reference)
        return digest

    async def unpush(self, reference: str, digest: str, login: Login | None) -> None:
        self.unpushed.append((reference, digest, login))
        await self._call("unpush", reference)
        self.pushed.discard(digest)
        if self.registry.get(reference) == digest:
            del self.registry[reference]

    async def named(self, reference: str, login: Login | None) -> str | None:
        await self._call("named", reference)
        return self.registry.get(reference)

    async def put_right(self, reference: str, digest: str | None, login: Login | None) -> None:
        await self._call("put_right", reference)
        named = self.registry.pop(reference, None)
        if named != digest:
            self.pushed -= {named}
        if digest is not None and digest in self.pushed:
            self.registry[reference] = digest

    async def labels(self, agent: str, image: str) -> Mapping[str, str]:
        return self.images[agent, image].labels


def shelf_of(service: Running) -> Shelf:
    """What makes the images of a service from now on."""
    shelf = Shelf()
    service.service.parts.site.engine._images = shelf  # type: ignore[assignment]
    return shelf


async def running_session(service: Running, who: str = "alice", **body: Any) -> dict[str, Any]:
    """One that runs in a container."""
    session = await launch(service, who, body)
    await make_running(service, session, "127.0.0.1:1")
    service.store.set_kernel(session["id"], container_id=CONTAINER)
    return session


def begin(service: Running, session: dict[str, Any], name: str = "mine", most: int = 99) -> Commit:
    """An image that is asked for."""
    wish = Wish(name, session["owner"], CONTAINER)
    commit: Commit = service.store.begin_commit(session["id"], wish, most, reference_of, utcnow())
    return commit


def made(service: Running, session: dict[str, Any], name: str = "mine") -> str:
    """The id of an image that was made."""
    commit = begin(service, session, name)
    service.store.move_commit(commit.id, CommitStatus.COMMITTING, utcnow())
    facts = Made(f"sha256:{'a' * 64}", BASE_ID, 5 * GIB, MIB, commit.agent)
    return str(service.store.finish_commit(commit.id, facts, utcnow()).id)
