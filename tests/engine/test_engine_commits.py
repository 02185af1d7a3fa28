"""Images made of a session's container with a real Docker, in both ways."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from committing import AGENT, Committed, build, saved, telling

from jupyterhub_backendai.engine import docker_commits, docker_images
from jupyterhub_backendai.engine.base import ContainerGone, EngineError, ImageMissing
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.docker_commits import Commit, Stopped, refused
from jupyterhub_backendai.engine.images import (
    LABEL_IMAGE_BASE,
    LABEL_IMAGE_BASE_ID,
    LABEL_IMAGE_NAME,
    LABEL_IMAGE_ORDER,
    CommitOrder,
    CommitRefused,
    ImageInUse,
)
from jupyterhub_backendai.engine.settings import HOME
from tests.pauses import pauses_of

pytestmark = [pytest.mark.docker, pytest.mark.slow]
WAYS = ["own", "containerd"]
LARGE = 100 * 1024**2  # bytes that Docker reads for seconds


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    name = f"backendai-test-{uuid.uuid4().hex[:12]}:latest"
    build(name)
    yield name
    subprocess.run(["docker", "rmi", name], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(docker_commits, "needs_layers", lambda info: request.param == "containerd")
    return str(request.param)


@pytest_asyncio.fixture
async def made(base: str) -> AsyncIterator[Committed]:
    made = Committed(base)
    try:
        made.start()
        yield made
    finally:
        await made.end()


FILL = """
mkdir -p /opt/tools/bin && echo installed > /opt/tools/bin/tool
echo changed > /tmp/note
echo home > /home/work/in-the-home
echo data > /data/in-a-volume
env > /home/work/env.txt
"""


async def test_the_image_has_the_files_and_nothing_else_of_the_session(
    made: Committed, way: str, tmp_path: Path
) -> None:
    made.inside(FILL)
    order = made.order()
    image = await made.images.make(AGENT, order)
    assert not made.temporary()
    assert not made.nameless()
    assert not made.paused()
    config, paths = saved(order.reference, tmp_path, 2 if way == "containerd" else 1)
    assert not list(telling(tmp_path, made.values))
    assert {"opt/tools/bin/tool", "tmp/note"} <= set(paths)
    assert not [p for p in paths if p.startswith(("home/work/", "data/", "opt/backendai/ssh"))]
    _starts_as_the_base(made, order.reference, way)
    labels = image.labels
    assert labels["org.example.kept"] == "yes"
    assert {n: labels[n] for n in order.labels} == dict(order.labels)
    assert labels[LABEL_IMAGE_BASE_ID] == made.docker.inspect_image(made.base)["Id"]
    ours = {n for n, value in labels.items() if n.startswith("backendai.") and value}
    assert ours == {*order.labels, LABEL_IMAGE_BASE_ID, LABEL_IMAGE_ORDER}
    last = config["history"][-1]
    assert last["comment"].endswith(order.id)
    if way == "own":
        assert "created_by" not in last
        below = made.docker.history(made.base)
        assert [h.get("created_by", "") for h in config["history"][:-1]] == [
            step["CreatedBy"] for step in reversed(below)
        ]
    told = made.docker.history(order.reference)
    assert len(told) == len(config["history"]), "Docker can read it"
    assert image.own == sum(step["Size"] for step in told[: 2 if way == "containerd" else 1]) > 0
    assert image.size == made.docker.inspect_image(made.base)["Size"] + image.own
    assert await made.images.find(AGENT, order.reference) == image
    assert await made.images.labels(AGENT, order.reference) == labels


def _starts_as_the_base(made: Committed, reference: str, way: str) -> None:
    base = made.docker.inspect_image(made.base)["Config"]
    config = made.docker.inspect_image(reference)["Config"]
    for name in (
        "Cmd", "Entrypoint", "User", "WorkingDir", "Volumes", "ExposedPorts", "Healthcheck",
        "StopSignal", "OnBuild", "Shell",
    ):  # fmt: skip
        assert config.get(name) == base.get(name), name
    valued = [line for line in config["Env"] if "=" in line]
    assert valued == base["Env"]
    assert way == "containerd" or config["Env"] == base["Env"]
    there = made.run_once(reference, "env").splitlines()
    assert {*base["Env"]} <= {*there}
    assert not [line for line in there if line.startswith(("JUPYTERHUB_", "JPY_", "AWS_"))]
    said = made.run_once(reference, "sh", "-c", "cat /opt/tools/bin/tool; pwd; id -un; ls -A")
    assert said.split()[:3] == ["installed", HOME, "work"]
    assert "in-the-home" not in said


async def test_an_image_of_an_image_has_labels_of_its_own_and_the_files_of_both(
    made: Committed, way: str
) -> None:
    made.inside("echo first > /opt/tools/first")
    first = made.order("first")
    one = await made.images.make(AGENT, first)
    await made.engine.remove_session(AGENT, made.session_id)
    made.start(image=first.reference)
    [found] = await made.engine.containers(AGENT)
    assert found.id == made.container, "it is ours, whatever the labels of its image"
    made.inside("echo second > /opt/tools/second; rm /opt/tools/first")
    second = made.order("second")
    two = await made.images.make(AGENT, second)
    assert two.labels[LABEL_IMAGE_NAME] == "second"
    assert two.labels[LABEL_IMAGE_ORDER] == second.id
    # Both are made from the same one, as people know it; it is told by its name and by its id.
    assert two.labels[LABEL_IMAGE_BASE] == one.labels[LABEL_IMAGE_BASE] == made.base
    assert two.labels[LABEL_IMAGE_BASE_ID] == made.docker.inspect_image(made.base)["Id"]
    assert made.run_once(second.reference, "ls", "/opt/tools").split() == ["second"]
    passwd = made.run_once(second.reference, "cat", "/etc/passwd")
    assert passwd.count("work:x:1000:100::/home/work") <= 2
    stranger = made.docker.create_container(second.reference, ["true"])["Id"]
    try:
        await asyncio.sleep(0)
        rows = await made.engine.containers(AGENT)
        assert stranger not in {row.id for row in rows}, "an image makes nothing ours"
    finally:
        made.docker.remove_container(stranger, v=True)


async def test_a_new_image_takes_the_name_and_the_old_one_goes_when_it_is_free(
    made: Committed, way: str
) -> None:
    made.inside("echo one > /opt/tools/which")
    one = made.order()
    earlier = await made.images.make(AGENT, one)
    assert await made.images.make(AGENT, one) == earlier, "an order that is done is done"
    user = made.docker.create_container(one.reference, ["sleep", "1000"])["Id"]
    made.docker.start(user)
    try:
        made.inside("echo two > /opt/tools/which")
        two = made.order()
        assert two.reference == one.reference
        later = await made.images.make(AGENT, two)
        assert later.id != earlier.id
        assert made.run_once(two.reference, "cat", "/opt/tools/which") == "two\n"
        assert made.docker.inspect_image(earlier.id)["Id"] == earlier.id, "it is in use"
        assert await made.images.leftovers(AGENT) == {two.id}
        with pytest.raises(ImageInUse):
            await made.images.remove(AGENT, made.temporary()[0])
    finally:
        made.docker.remove_container(user, force=True, v=True)
    await made.images.clean(AGENT, two.id)
    assert not made.temporary()
    assert way == "containerd" or not _there(made, earlier.id)
    assert await made.images.leftovers(AGENT) == set()
    assert await made.images.find(AGENT, two.reference) == later


def _there(made: Committed, image: str) -> bool:
    return bool(made.docker.images(quiet=True, all=True)) and image in made.docker.images(
        quiet=True, all=True
    )


async def test_an_image_in_use_is_not_removed(made: Committed) -> None:
    order = made.order()
    await made.images.make(AGENT, order)
    user = made.docker.create_container(order.reference, ["true"])["Id"]
    try:
        with pytest.raises(ImageInUse):
            await made.images.remove(AGENT, order.reference)
        assert await made.images.find(AGENT, order.reference)
    finally:
        made.docker.remove_container(user, v=True)
    await made.images.remove(AGENT, order.reference)
    assert await made.images.find(AGENT, order.reference) is None
    await made.images.remove(AGENT, order.reference)
    with pytest.raises(ImageMissing):
        await made.images.labels(AGENT, order.reference)


async def test_it_knows_before_what_it_would_take(made: Committed) -> None:
    before = await made.images.look(AGENT, made.container)
    made.inside("head -c 3000000 /dev/urandom > /tmp/more")
    after = await made.images.look(AGENT, made.container)
    assert after - before >= 3_000_000
    made.inside("truncate -s 50G /opt/tools/nothing")
    assert await made.images.look(AGENT, made.container, fresh=False) == after, "just now"
    # A commit writes what is only said to be there.
    assert await made.images.look(AGENT, made.container) >= 50 * 2**30
    made.docker.stop(made.container, timeout=0)
    with pytest.raises(CommitRefused) as told:
        await made.images.look(AGENT, made.container)
    assert told.value.code == "not_running"
    with pytest.raises(CommitRefused):
        await made.images.make(AGENT, made.order())
    for call in (made.images.look(AGENT, "0" * 64), made.images.make(AGENT, _of_none(made))):
        with pytest.raises(ContainerGone):
            await call
    assert not made.temporary()


async def test_many_who_ask_at_once_have_it_looked_at_once(
    made: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients, looking, most = [0], [0], [0]
    lock = threading.Lock()
    host = made.engine.host(AGENT)
    new_client, running = host.new_client, docker_images.running

    def counted(**more: Any) -> Any:
        clients[0] += 1
        return new_client(**more)

    def looked_at(client: Any, container: str) -> Any:
        with lock:
            looking[0] += 1
            most[0] = max(most[0], looking[0])
        try:
            return running(client, container)
        finally:
            with lock:
                looking[0] -= 1

    monkeypatch.setattr(host, "new_client", counted)
    monkeypatch.setattr(docker_images, "running", looked_at)
    looks = [made.images.look(AGENT, made.container, fresh=n % 2 == 0) for n in range(100)]
    assert len(set(await asyncio.gather(*looks))) == 1
    assert clients == [1]
    # Who asks and goes away leaves no more behind than who waits.
    tasks = [asyncio.ensure_future(made.images.look(AGENT, made.container)) for _ in range(50)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await made.images.look(AGENT, made.container)
    assert clients == [2]
    others = [made.images.look(AGENT, f"{n:064x}") for n in range(20)]
    answers = await asyncio.gather(*others, return_exceptions=True)
    assert all(isinstance(answer, ContainerGone) for answer in answers)
    assert clients == [22]
    assert most[0] <= docker_images.LOOKS


@asynccontextmanager
async def far_docker() -> AsyncIterator[str]:
    """The address of this machine's Docker as one has it that is far away."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_unix_connection("/var/run/docker.sock")

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
            target.close()

        await asyncio.gather(copy(reader, outer), copy(inner, writer), return_exceptions=True)

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_the_room_is_known_of_an_agent_that_is_far_away_too(made: Committed) -> None:
    near = await made.images.room(AGENT, [])
    async with far_docker() as address:
        far = DockerEngine(
            [AgentConfig(AGENT, client={"base_url": address})], made.engine.hub_id, made.run[:12]
        )
        assert await far.images.room(AGENT, []) is None
        assert await far.images.room(AGENT, ["example.org/not-here:1"]) is None
        # Its entrypoint, command and health check are not run.
        found = await far.images.room(AGENT, ["example.org/not-here:1", made.base])
        assert found is not None
        assert 0 < found.free < found.whole
        if near is not None:
            assert abs(found.free - near.free) < found.whole // 20
            assert abs(found.whole - near.whole) < found.whole // 100
        several = [far.images.room(AGENT, [made.base]) for _ in range(20)]
        assert len(set(await asyncio.gather(*several))) == 1
        rows = await far.containers(AGENT)
        assert {row.id for row in rows} == {made.container}, "and nothing is left of it"


async def test_one_with_as_many_layers_as_there_may_be_is_refused_before_any_work(
    made: Committed, base: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.inside("echo more > /tmp/more")
    has = len(made.docker.inspect_image(base)["RootFS"]["Layers"])
    monkeypatch.setattr(docker_commits, "LAYERS", has + 1)
    await made.images.look(AGENT, made.container)
    order = made.order()
    await made.images.make(AGENT, order)
    await made.engine.remove_session(AGENT, made.session_id)
    made.start(image=order.reference)  # one more than before
    with pytest.raises(CommitRefused) as told:
        await made.images.look(AGENT, made.container)
    assert told.value.code == "layers"
    again = made.order("again", stay=True)
    with pytest.raises(CommitRefused):
        await made.images.make(AGENT, again)
    assert not made.paused()
    assert await made.images.leftovers(AGENT) == set()
    assert not made.temporary()


def _of_none(made: Committed) -> Any:
    made.container = "0" * 64
    return made.order()


async def test_the_name_of_its_image_may_be_another_ones_by_now(
    made: Committed, base: str, way: str
) -> None:
    own = made.docker.inspect_image(base)["Id"]
    name = f"{made.engine.hub_id}-moved"
    made.docker.tag(own, name, "1")
    await made.engine.remove_session(AGENT, made.session_id)
    made.start(image=f"{name}:1")
    made.docker.tag("backendai-plain:latest", name, "1", force=True)
    try:
        order = made.order()
        image = await made.images.make(AGENT, order)
        assert image.labels[LABEL_IMAGE_BASE_ID] == own
        assert made.docker.inspect_image(order.reference)["Config"]["StopSignal"] == "SIGINT"
    finally:
        made.docker.remove_image(f"{name}:1")


async def test_labels_of_a_session_cannot_be_ordered(made: Committed) -> None:
    order = made.order(**{"backendai.session": "s1"})
    with pytest.raises(EngineError, match=r"backendai\.session"):
        await made.images.make(AGENT, order)
    assert not made.temporary()


async def test_a_command_with_a_secret_is_refused_where_the_history_would_tell_it(
    made: Committed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await made.engine.remove_session(AGENT, made.session_id)
    made.start("sh", "-c", f"sleep 1000 # {made.secrets['JPY_API_TOKEN']}")
    monkeypatch.setattr(docker_commits, "needs_layers", lambda info: True)
    order = made.order()
    with pytest.raises(CommitRefused) as told:
        await made.images.make(AGENT, order)
    assert told.value.code == "secret"
    assert made.secrets["JPY_API_TOKEN"] not in f"{told.value} {told.value.told}"
    assert await made.images.find(AGENT, order.reference) is None
    assert not made.temporary()
    monkeypatch.setattr(docker_commits, "needs_layers", lambda info: False)
    await made.images.make(AGENT, order)
    saved(order.reference, tmp_path, 1)
    assert not list(telling(tmp_path, made.values))


@pytest.mark.parametrize(
    ("says", "code"),
    [
        ("Error processing tar file(exit status 1): write /x: no space left on device", "no_room"),
        ("write /x: disk quota exceeded", "no_room"),
        ("max depth exceeded", "layers"),
        ("commit is not supported by this driver", "not_possible"),
        ("something else", None),
    ],
)
def test_what_docker_refuses_is_told_in_words(says: str, code: str | None) -> None:
    found = refused(says)
    assert (found.code if found else None) == code
    assert found is None or says not in found.told


# ---- cut off -------------------------------------------------------------------------------------

STEPS = {
    "own": ["begin", "noted", "committed", "kept", "named"],
    "containerd": [
        "begin", "noted", "committed", "created", "committed again", "kept", "named",
    ],
}  # fmt: skip
CUTS = [(way, step) for way, steps in STEPS.items() for step in steps]
# In a process of its own: kill -9 between two steps is what a machine does that loses its power.
KILLED = """
import asyncio, json, os, signal, sys
from jupyterhub_backendai.engine import docker_commits
from jupyterhub_backendai.engine.docker import AgentConfig, DockerEngine
from jupyterhub_backendai.engine.images import CommitOrder
said = json.loads(sys.stdin.read())
docker_commits.needs_layers = lambda info: said["way"] == "containerd"
def at(self, step):
    if step == said["step"]:
        if step == "committed":
            self.client.pause(self.order.container)
        os.kill(os.getpid(), signal.SIGKILL)
docker_commits.Commit.at = at
engine = DockerEngine([AgentConfig("local", client=said["client"])], said["hub"], "run")
asyncio.run(engine.images.make("local", CommitOrder(**said["order"])))
"""


def cut(made: Committed, order: Any, way: str, step: str, client: Any = None) -> None:
    """Makes an image in another process, which is killed at that step."""
    said = {
        "way": way, "step": step, "hub": made.engine.hub_id, "client": client or {},
        "order": {"id": order.id, "container": order.container, "reference": order.reference,
                  "labels": dict(order.labels)},
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", KILLED], input=json.dumps(said).encode(), check=False
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("way", "step"), CUTS)
async def test_killed_between_two_steps_it_leaves_what_is_found_and_put_right(
    made: Committed, way: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_commits, "needs_layers", lambda info: way == "containerd")
    made.inside("echo one > /opt/tools/which")
    earlier = await made.images.make(AGENT, made.order())
    made.inside("echo two > /opt/tools/which")
    order = made.order()
    cut(made, order, way, step)
    assert made.paused() == (step == "committed")
    assert await made.images.leftovers(AGENT) == ({order.id} if step != "begin" else set())
    await made.images.clean(AGENT, order.id)
    assert not made.temporary()
    assert not made.nameless()
    assert not made.paused()
    assert await made.images.leftovers(AGENT) == set()
    found = await made.images.find(AGENT, order.reference)
    assert found
    whole = step == "named"
    assert (found.labels[LABEL_IMAGE_ORDER] == order.id) is whole
    assert whole or found == earlier
    which = made.run_once(order.reference, "cat", "/opt/tools/which")
    assert which == ("two\n" if whole else "one\n")
    again = await made.images.make(AGENT, order)
    assert again.labels[LABEL_IMAGE_ORDER] == order.id
    assert not whole or again == found
    assert made.run_once(order.reference, "cat", "/opt/tools/which") == "two\n"
    assert made.inside("cat /opt/tools/which") == "two\n", "the session goes on"


@pytest.mark.parametrize("step", STEPS["own"][:-1])
async def test_cancelled_it_ends_at_the_next_step_and_leaves_nothing(
    made: Committed, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, go_on, over = threading.Event(), threading.Event(), threading.Event()
    plain, make = Commit.at, Commit.make

    def at(self: Commit, now: str) -> None:
        if now == step:
            here.set()
            assert go_on.wait(60)
        plain(self, now)

    def ended(self: Commit) -> Any:
        try:
            return make(self)
        except Stopped:
            over.set()
            raise

    monkeypatch.setattr(Commit, "at", at)
    monkeypatch.setattr(Commit, "make", ended)
    order = made.order()
    task = asyncio.create_task(made.images.make(AGENT, order))
    assert await asyncio.to_thread(here.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
    assert await asyncio.to_thread(over.wait, 60)
    assert not made.temporary()
    assert await made.images.find(AGENT, order.reference) is None


async def begun(made: Committed, order: CommitOrder) -> None:
    """An order that nobody waits for any more while Docker reads."""
    task = asyncio.create_task(made.images.make(AGENT, order))
    while not await asyncio.to_thread(made.paused):
        assert not task.done()
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("cleaned", [True, False], ids=["cleaned", "not cleaned"])
async def test_what_is_made_after_one_that_was_cancelled_stands_still_while_it_is_read(
    made: Committed, cleaned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long Docker reads for the first: at the end of that it lets the session go on."""
    monkeypatch.setattr(docker_images, "LAST_STEP", 0.01)
    made.inside(f"head -c {LARGE} /dev/urandom > /opt/tools/large")
    order, second = made.order(), replace(made.order("second"), stay=True)
    with pauses_of(made.docker, made.container) as pauses:
        await begun(made, order)
        if cleaned:
            await made.images.clean(AGENT, order.id)
            assert not made.temporary()
        await made.images.make(AGENT, second)
        assert made.paused()
        await made.images.clean(AGENT, second.id)
        assert pauses.over(2) == ["pause", "commit", "unpause"] * 2
    assert not made.temporary()
    assert await made.images.find(AGENT, order.reference) is None


async def test_what_somebody_makes_of_ours_is_not_taken_for_ours(made: Committed) -> None:
    order = made.order()
    await made.images.make(AGENT, order)
    container = made.docker.create_container(order.reference, ["true"])["Id"]
    copy = made.docker.commit(container)["Id"]  # without a name, with all labels of ours
    try:
        assert copy in made.nameless()
        assert await made.images.leftovers(AGENT) == set()
        await made.images.clean(AGENT, order.id)
        assert copy in made.nameless()
    finally:
        made.docker.remove_container(container, v=True)
        made.docker.remove_image(copy)


async def test_a_container_that_somebody_else_has_paused_stays_so(made: Committed) -> None:
    made.docker.pause(made.container)
    await made.images.make(AGENT, made.order())
    await made.images.clean(AGENT, uuid.uuid4().hex)
    assert made.paused()
    made.docker.unpause(made.container)


async def test_what_stands_still_is_ended_as_it_stands(made: Committed) -> None:
    await made.engine.remove_session(AGENT, made.session_id)
    made.start("sh", "-c", "trap '' INT TERM; n=0; while :; do n=$((n+1)); echo $n; done")
    await made.images.make(AGENT, made.order(stay=True))
    assert made.paused()
    said = made.docker.logs(made.container)
    await made.engine.stop_session(AGENT, made.session_id, 5)
    assert not made.docker.inspect_container(made.container)["State"]["Running"]
    # What it was just writing may come; it counts no further.
    assert len(made.docker.logs(made.container)) - len(said) < 100_000
