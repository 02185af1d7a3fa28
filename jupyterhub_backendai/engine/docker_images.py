"""Images of sessions on Docker hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

import docker
from docker.errors import APIError, ImageNotFound, NotFound

from .._within import within
from . import registry
from .base import AgentUnreachable, EngineError, ImageMissing
from .commit_traces import REPOSITORY, Traces, is_gone
from .docker_commits import Commit, Stoppable, base_of, made_image, refusals, running
from .docker_room import room
from .helper_programs import said
from .images import (
    LABEL_IMAGE_HUB,
    LABEL_IMAGE_ORDER,
    CommitOrder,
    ImageInUse,
    Images,
    Login,
    MadeImage,
    Progress,
    RegistryRefused,
    Room,
)
from .shared import Shared

if TYPE_CHECKING:
    from .docker import DockerEngine, DockerHost

T = TypeVar("T")
LAST_STEP = 60  # seconds that the step of an order takes which nobody waits for any more
LONGEST = 4 * 3600  # seconds that Docker may take for one commit
LOOKS = 2  # at what sessions have written, of one agent at a time: each reads all of it
LOOK_KEPT = 10.0  # seconds that what one has written is good enough for a page
LOOK = 60.0  # seconds that it may take to say what one would take: somebody waits for that


class DockerImages(Images):
    """Those of the agents of one engine."""

    def __init__(self, engine: DockerEngine) -> None:
        self._engine = engine
        self._making: dict[str, Thread] = {}  # by the id of the order
        self._looks: Shared[int] = Shared(LOOKS, LOOK_KEPT)
        self._rooms: Shared[Room | None] = Shared(1)

    async def look(self, agent: str, container: str, fresh: bool = True) -> int:
        host = self._engine.host(agent)

        def run(client: docker.APIClient) -> int:
            found = running(client, container)
            base_of(client, found)
            rows = client.containers(all=True, size=True, filters={"id": found["Id"]})
            return int(rows[0].get("SizeRw") or 0) if rows else 0

        async def work() -> int:
            looking = self._patiently(host, lambda client, _: run(client), limit=LOOK)
            try:
                return await within(LOOK, looking)
            except asyncio.TimeoutError:
                why = f"Docker on {agent} does not answer within {LOOK:g} seconds"
                raise AgentUnreachable(why) from None

        return await self._looks.ask(agent, (agent, container), work, fresh)

    async def room(self, agent: str, images: Sequence[str]) -> Room | None:
        labels = self._engine.host(agent).helper_labels

        def work() -> Awaitable[Room | None]:
            local = self._engine.host(agent).local
            return self._call(agent, lambda client: room(client, local, images, labels))

        return await self._rooms.ask(agent, agent, work)

    async def make(self, agent: str, order: CommitOrder) -> MadeImage:
        def run(client: docker.APIClient, begun: Callable[[Stoppable], None]) -> MadeImage:
            commit = Commit(client, self._engine.hub_id, order)
            begun(commit)
            return commit.make()

        return await self._patiently(self._engine.host(agent), run, order.id)

    async def clean(self, agent: str, order_id: str) -> None:
        thread = self._making.get(order_id)
        if thread is not None and thread.is_alive():
            # Nobody waits for it any more; what it has in its hands comes to its end first.
            await asyncio.get_running_loop().run_in_executor(None, thread.join, LAST_STEP)
        host = self._engine.host(agent)

        def outwait(client: docker.APIClient, begun: Callable[[Stoppable], None]) -> None:
            wait = Stoppable(f"What the image {order_id} left")
            begun(wait)
            self._traces(client).outwait(order_id, partial(wait.at, "waits"))

        # Mostly it is not, and then nobody needs a thread and a connection of its own.
        if await self._call(agent, lambda client: self._traces(client).is_read(order_id)):
            await self._patiently(host, outwait, limit=None)
        await self._call(agent, lambda client: self._traces(client).clear(order_id))

    async def leftovers(self, agent: str) -> frozenset[str]:
        return await self._call(agent, lambda client: self._traces(client).orders())

    async def listed(self, agent: str) -> Mapping[str, Mapping[str, str]]:
        def run(client: docker.APIClient) -> Mapping[str, Mapping[str, str]]:
            label = f"{LABEL_IMAGE_HUB}={self._engine.hub_id}"
            rows = client.images(filters={"label": [label, LABEL_IMAGE_ORDER]})
            return {
                name: dict(row.get("Labels") or {})
                for row in rows
                for name in row.get("RepoTags") or ()
                if not name.startswith(f"{REPOSITORY}:")
            }

        return await self._call(agent, run)

    async def find(self, agent: str, reference: str) -> MadeImage | None:
        return await self._call(agent, lambda client: made_image(client, reference))

    async def remove(self, agent: str, reference: str) -> None:
        def run(client: docker.APIClient) -> None:
            try:
                client.remove_image(reference)
            except (ImageNotFound, NotFound):
                return
            except APIError as error:
                if is_gone(error):
                    return
                if error.status_code == 409:
                    raise ImageInUse(str(error.explanation)) from error
                raise

        await self._call(agent, run)

    async def labels(self, agent: str, image: str) -> Mapping[str, str]:
        def run(client: docker.APIClient) -> Mapping[str, str]:
            try:
                found = client.inspect_image(image)
            except (ImageNotFound, NotFound) as error:
                raise ImageMissing(f"The image {image} is not on {agent}") from error
            return dict((found.get("Config") or {}).get("Labels") or {})

        return await self._call(agent, run)

    async def push(
        self, agent: str, reference: str, login: Login | None, progress: Progress
    ) -> str:
        await self.labels(agent, reference)
        host = self._engine.host(agent)
        auth = login.auth if login else None
        order = {"client": dict(host.client_options()), "image": reference, "auth": auth}
        async with aclosing(said("push.py", order)) as lines:
            async for line in lines:
                if isinstance(line, list):
                    progress(int(line[0]), int(line[1]) or None)
                elif "digest" in line:
                    return str(line["digest"])
                elif "unreachable" in line:
                    why = str(line["unreachable"])[:300]
                    raise AgentUnreachable(f"Docker on {agent} does not answer: {why}")
                else:
                    raise RegistryRefused(registry.words(str(line.get("refused")), login))
        raise EngineError(f"The push of {reference} from {agent} ended with no result.")

    async def unpush(self, reference: str, digest: str, login: Login | None) -> None:
        await asyncio.to_thread(registry.delete, reference, digest, login, self._says())

    async def named(self, reference: str, login: Login | None) -> str | None:
        return await asyncio.to_thread(registry.named, reference, login, self._says())

    async def put_right(self, reference: str, digest: str | None, login: Login | None) -> None:
        await asyncio.to_thread(registry.put_right, reference, digest, login, self._says())

    def _says(self) -> list[Mapping[str, Any]]:
        return [host.says for host in self._engine.hosts.values()]

    def _traces(self, client: docker.APIClient) -> Traces:
        return Traces(client, self._engine.hub_id)

    async def _call(self, agent: str, function: Callable[[docker.APIClient], T]) -> T:
        host = self._engine.host(agent)

        def run(client: docker.APIClient) -> T:
            with refusals():
                return function(client)

        return await host.call(run)

    async def _patiently(
        self,
        host: DockerHost,
        function: Callable[[docker.APIClient, Callable[[Stoppable], None]], T],
        order: str = "",
        limit: float | None = LONGEST,
    ) -> T:
        """`function(client, begun)` in a thread of its own, for as long as it takes: it keeps no
        short call waiting, and does not hold up the end of this process. `begun` takes what is to
        be stopped when nobody waits for it any more; `limit`: seconds that Docker may be silent,
        None as in a short call."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        under_way: list[Stoppable] = []

        def begun(one: Stoppable) -> None:
            under_way.append(one)
            if result.cancelled():  # before there was anything to be stopped
                one.stop()

        def tell(call: Callable[[Any], None], what: Any) -> None:
            def set_it() -> None:
                if not result.done():
                    call(what)

            try:
                loop.call_soon_threadsafe(set_it)
            except RuntimeError:
                return  # the loop has ended, and who waited with it

        def run() -> None:
            try:
                with host.answering(), refusals():
                    client = host.new_client(**({} if limit is None else {"timeout": limit}))
                    try:
                        tell(result.set_result, function(client, begun))
                    finally:
                        client.close()
            except BaseException as error:
                tell(result.set_exception, error)

        thread = Thread(target=run, daemon=True, name=f"docker-{host.name}-image")
        if order:
            self._making = {id: one for id, one in self._making.items() if one.is_alive()}
            self._making[order] = thread
        thread.start()
        try:
            return await result
        except asyncio.CancelledError:
            for one in under_way:
                one.stop()
            raise
