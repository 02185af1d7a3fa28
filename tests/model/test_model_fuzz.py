"""Whatever arrives as options is granted as a sound request or refused with readable errors."""

from __future__ import annotations

import copy
import json
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_samples import (
    ALICE,
    CATALOG,
    FOLDERS,
    POLICIES_WITH_QUOTA,
    TORCH_28,
    WITH_GPUS,
    context,
)

from jupyterhub_backendai.model import rules
from jupyterhub_backendai.model.errors import RequestError
from jupyterhub_backendai.model.gpus import GpuKind, pools
from jupyterhub_backendai.model.policy import Policy
from jupyterhub_backendai.model.resolve import Context, KnownSession, SessionRequest, resolve
from jupyterhub_backendai.model.sizes import MAX_ERRORS, MAX_PARTS, MAX_TEXT, size_error

LENIENT = context(Policy(manual_image=True, max_preopen_ports=100), agents=(), folders=FOLDERS)
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
EARLIER = KnownSession("a" * 32, "earlier", "batch", False, False)
SERVED = context(service=True, now=NOW, sessions={"earlier": EARLIER})
CONTEXTS = [ALICE, LENIENT, context(policies=POLICIES_WITH_QUOTA), SERVED, WITH_GPUS]

VALID: dict[str, Any] = {
    "name": "train1", "type": "interactive", "environment": "pytorch", "version": "2.9",
    "image": None, "env": {"MY_VAR": "1"}, "resource_group": "default", "agent": "auto",
    "preset": "medium", "resources": {"cpu": 2, "mem": "4g", "shm": "1g", "fgpu": 0},
    "count": 1, "cluster": {"mode": "single-node", "size": 1}, "threads": {"omp": 1, "openblas": 1},
    "mounts": [{"folder": "data", "path": "in", "permission": "rw"}, {"folder": "models"}],
    "preopen_ports": [8080, "9000:9002"], "batch": None, "owner": None, "project": None,
    "depends_on": [], "priority": None,
}  # fmt: skip
VALID_BATCH: dict[str, Any] = {
    **VALID, "type": "batch", "count": 3, "depends_on": ["earlier"], "priority": 5,
    "batch": {"command": "make", "starts_at": "2026-12-01T09:00:00Z", "timeout": "2h"},
}  # fmt: skip

# Words that mean something somewhere, so that mutations reach what is behind the first check.
WORDS = [
    "", " ", "auto", "default", "lab", "private", "python", "pytorch", "secret", "2.8", "small",
    "medium", "huge", "gpu", "data", "models", "papers", ".config", "vision/data", "..", "../x",
    "/", "/data", "rw", "ro", "batch", "alice", "bob", "vision", "taken", "4g", "0.1", "1e9", "-1",
    "NaN", "1g.10gb", "8080", "8000:9000", "2026-12-01T09:00:00Z", "2h", "earlier", TORCH_28,
    "deadbeef", "{username}", "%s",
    "\x00", "\ud800", "\n", "a" * 70, "９", "<script>", "true", "null",
]  # fmt: skip
KEYS = [
    *VALID, "cpu", "mem", "shm", "fgpu", "gpu", "mig", "mig_profile", "folder", "path",
    "permission", "create", "mode", "size",
    "omp", "openblas", "command", "starts_at", "timeout", "value", "HOME", "__class__",
]  # fmt: skip

texts = st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=()), max_size=20)
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**4299, -(10**400), 2**63, 0, 1, 8080, 65536])
    | st.floats(allow_nan=True)
    | texts
)
keys = st.sampled_from(KEYS) | texts
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5) | st.tuples(inner) | st.dictionaries(keys, inner, max_size=5)
    ),
    max_leaves=20,
)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each part of a value."""
    found = [here]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*here, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += paths(item, (*here, index))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid spec with some of its parts replaced, removed or doubled."""
    options = copy.deepcopy(draw(st.sampled_from([VALID, VALID_BATCH])))
    for key in draw(st.lists(st.sampled_from(sorted(VALID)), max_size=14)):
        options.pop(key, None)
    for _ in range(draw(st.integers(0, 4))):
        path = draw(st.sampled_from(paths(options)))
        if not path:
            options[draw(keys)] = draw(anything)
            continue
        holder: Any = options
        for step in path[:-1]:
            holder = holder[step]
        how = draw(st.sampled_from(["replace", "replace", "remove", "double"]))
        if how == "replace":
            holder[path[-1]] = draw(leaves | anything)
        elif how == "remove":
            holder.pop(path[-1])
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[path[-1]]))
        else:
            holder[draw(keys)] = copy.deepcopy(holder[path[-1]])
    return options


def outcome(options: object, of: Context) -> SessionRequest | RequestError:
    """What `resolve` makes of it; any other exception is the test's failure."""
    try:
        return resolve(options, of)
    except RequestError as error:
        return error


def check_refusal(error: RequestError) -> None:
    assert error.errors
    assert len(error.errors) < MAX_ERRORS + 300
    assert error.status in {400, 403, 409}
    for one in error.errors:
        assert one.field.isascii()
        assert one.field.isprintable()
        assert len(one.field) < 600
        assert one.message
        assert one.message.isprintable()
        assert len(one.message) < 400
        assert one.message[0].isprintable()
        assert one.message.endswith(".")
        assert one.code.isascii()
        assert one.code.replace("_", "").isalnum()
    # Sent, stored and logged without a second thought.
    json.dumps(error.as_dict()).encode()
    str(error).encode()


def check_grant(session: SessionRequest, of: Context) -> None:
    allowed = {e.name for e in of.allowed_environments()}
    assert session.type == "interactive" or of.service
    assert (session.type == "batch") == (session.batch is not None)
    assert session.count == 1 or of.service
    assert session.not_before is None or abs(session.not_before - of.now) <= timedelta(366)
    assert set(session.depends_on) <= {known.id for known in of.sessions.values()}
    assert 0 <= session.priority <= of.policy.highest_priority
    for name in rules.numbered(session.name or "some", session.count):
        assert rules.check_session_name(name) == name
        assert name not in of.names_in_use
    assert rules.check_image(session.image) == session.image
    if session.environment is None:
        assert of.policy.manual_image
        assert ":" in session.image or "@" in session.image
    else:
        assert session.environment in allowed
    assert session.resource_group in {g.name for g in of.allowed_groups()}
    for name, value in session.env.items():
        assert rules.check_env_name(name) == name
        assert rules.check_text(value) == value
    assert session.cpu >= 10
    assert session.mem >= 64 * 2**20
    assert 0 < session.shm <= session.mem
    assert sum(1 for amount in (session.fgpu, session.gpu, session.mig) if amount) <= 1
    machines = [a for a in of.agents if a.group == session.resource_group]
    assert not machines or any(session.slots.fits(machine.capacity) for machine in machines)
    if session.slots.gpu_slot and any(machine.devices for machine in machines):
        kind = GpuKind(session.slots.gpu_slot, session.mig_profile)  # type: ignore[arg-type]
        amount = getattr(session, kind.slot)
        there = [pool for machine in machines for pool in pools(kind, machine.devices)]
        assert any(pool.gives(amount, "packed") for pool in there)
    assert session.openblas_threads >= 1
    assert session.omp_threads >= 1
    assert len(set(session.preopen_ports)) == len(session.preopen_ports)
    assert len(session.preopen_ports) <= of.policy.max_preopen_ports
    for port in session.preopen_ports:
        assert rules.expand_ports(port) == [port]
    targets = [m.target for m in session.mounts]
    assert not rules.overlapping(targets)
    assert len({m.folder for m in session.mounts}) == len(targets)
    for mount in session.mounts:
        known = of.folders.get(mount.folder)
        assert (known is None) == mount.create
        if known is None:
            assert rules.check_folder_name(mount.folder) == mount.folder
            assert mount.project is None
        else:
            assert mount.project == known.project
            assert known.permission == "rw" or mount.permission == "ro"
        if mount.target != rules.default_target(mount.folder):
            assert rules.mount_target(mount.target) == mount.target
    assert session.project is None or session.project in of.groups
    # What is queued comes out of the database as it went in.
    assert SessionRequest.model_validate(json.loads(session.model_dump_json())) == session


def check(options: object, of: Context) -> None:
    before = repr(options)
    began = time.perf_counter()
    found = outcome(options, of)
    assert time.perf_counter() - began < 5  # a slow machine's pause, not the work
    assert repr(options) == before
    if isinstance(found, RequestError):
        check_refusal(found)
        again = outcome(options, of)
        assert isinstance(again, RequestError)
        assert again.errors == found.errors
    else:
        check_grant(found, of)
        assert outcome(options, of) == found


fuzz = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@fuzz
@given(anything, st.sampled_from(CONTEXTS))
def test_anything(options: object, of: Context) -> None:
    check(options, of)


@fuzz
@given(st.dictionaries(st.sampled_from(sorted(VALID)), anything), st.sampled_from(CONTEXTS))
def test_anything_under_the_right_names(options: object, of: Context) -> None:
    check(options, of)


@settings(fuzz, max_examples=2 * settings().max_examples)
@given(mutated(), st.sampled_from(CONTEXTS))
def test_mutations_of_a_valid_spec(options: object, of: Context) -> None:
    check(options, of)


@pytest.mark.parametrize(
    ("options", "of"), [(VALID, ALICE), (VALID_BATCH, SERVED)], ids=["it", "batch"]
)
def test_the_valid_specs_are_valid(options: Any, of: Context) -> None:
    found = outcome(options, of)
    assert isinstance(found, SessionRequest)
    check_grant(found, of)


@given(mutated())
def test_a_grant_asked_for_again_by_its_own_words_is_the_same(options: Any) -> None:
    found = outcome(options, ALICE)
    if isinstance(found, RequestError):
        return
    words = {
        "name": found.name, "environment": found.environment, "version": found.version,
        "env": found.env, "resource_group": found.resource_group, "agent": found.agent,
        "preset": found.preset, "priority": found.priority,
        "resources": {
            "cpu": found.cpu / 1000, "mem": found.mem, "shm": found.shm,
            "fgpu": found.fgpu / 1000, "gpu": found.gpu / 1000, "mig": found.mig / 1000,
        },
        "threads": {"omp": found.omp_threads, "openblas": found.openblas_threads},
        "mounts": [
            {"folder": m.folder, "path": m.target, "permission": m.permission, "create": m.create}
            for m in found.mounts
        ],
        "preopen_ports": list(found.preopen_ports), "project": found.project,
    }  # fmt: skip
    again = outcome(words, ALICE)
    assert isinstance(again, SessionRequest), again
    # Whether the preset was changed is about who named the shared memory.
    assert again.model_copy(update={"preset_changed": found.preset_changed}) == found


def deep(levels: int, make: Any) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = make(value)
    return value


HUGE = {
    "deep lists": lambda: {"mounts": deep(50_000, lambda v: [v])},
    "deep objects": lambda: {"resources": deep(50_000, lambda v: {"cpu": v})},
    "deep options": lambda: deep(50_000, lambda v: {"batch": v}),
    "many settings": lambda: {f"k{n}": n for n in range(100_000)},
    "many variables": lambda: {"env": {f"K{n}": "" for n in range(100_000)}},
    "many bad rows": lambda: {"env": [[] for _ in range(100_000)]},
    "many mounts": lambda: {"mounts": [{"folder": "data"}] * 100_000},
    "mounts with many unknown keys": lambda: {
        "mounts": [{f"k{n}": 1 for n in range(100)} for _ in range(100)]
    },
    "many ports": lambda: {"preopen_ports": " ".join(map(str, range(1024, 60_000)))},
    "many ranges": lambda: {"preopen_ports": [f"{n}001:{n + 1}000" for n in range(9, 64)] * 15},
    "many wrong ports": lambda: {"preopen_ports": "x " * 500_000},
    "long text": lambda: {"name": "a" * 10**6, "environment": "\n" * 10**6},
    "long value": lambda: {"env": {"A": "x" * 10**7}},
    "long number": lambda: {"resources": {"cpu": "9" * 10**6, "mem": " " * 10**6 + "x"}},
    "long spaces": lambda: {"resources": {"cpu": "0.12345" + " " * 10**6}},
    "long integers": lambda: {"count": 10**4299, "preopen_ports": [10**4299]},
    "long image": lambda: {"image": "a" * 200_000 + "!"},
    "an image made to be slow": lambda: {"image": "a-" * 126 + "!"},
    "many to wait for": lambda: {"depends_on": ["x" * 10**5] * 1000},
    "long times": lambda: {
        "type": "batch", "batch": {"starts_at": "1h " * 10**6, "timeout": "2" * 10**6}
    },
    "many bad texts": lambda: {"mounts": [["\x00"] * 99 for _ in range(999)]},
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_what_is_huge_is_refused_at_once(name: str) -> None:
    options = HUGE[name]()
    began = time.perf_counter()
    found = outcome(options, LENIENT)
    took = time.perf_counter() - began
    assert isinstance(found, RequestError)
    check_refusal(found)
    assert took < 2


@pytest.mark.parametrize(
    "options",
    [
        {1: 2},
        {None: None},
        {("a",): 1},
        {"env": {1: "x"}},
        {"env": {10**5000: "x"}},
        {"name": b"abcd"},
        {"name": object()},
        {"mounts": {"a", "b"}},
        {"mounts": ({"folder": "data", "path": bytearray(b"x")},)},
        {"resources": {"cpu": 1j}},
        {"preopen_ports": range(3)},
        {"count": type},
    ],
    ids=lambda o: str(next(iter(o)))[:20],
)
def test_what_no_json_could_bring_is_refused_too(options: Any) -> None:
    found = outcome(options, ALICE)
    assert isinstance(found, RequestError)
    check_refusal(found)


class Counted(dict[str, Any]):
    """An object that counts how many of its items were asked for."""

    read = 0

    def items(self) -> Any:
        for pair in super().items():
            self.read += 1
            yield pair


def test_size_is_told_before_anything_is_read() -> None:
    at_most = {"env": {f"A{n}": "" for n in range(MAX_PARTS - 1)}}
    assert size_error(at_most) is None
    many = Counted({f"A{n}": "" for n in range(MAX_PARTS + 1)})
    error = size_error(many)
    assert error is not None
    assert (error.field, error.code, many.read) == ("", "too_long", 0)
    assert size_error({"a": "x" * (MAX_TEXT - 1)}) is None
    error = size_error({"name": "x", "env": {"A": "x" * MAX_TEXT}})
    assert error is not None
    assert (error.field, error.code) == ("env", "too_long")
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    error = size_error({"mounts": deep})
    assert error is not None
    assert (error.field, error.code) == ("mounts", "too_deep")
    while isinstance(deep, list):
        deep = deep[0]  # else its end would be a recursion of Python's own


def test_nothing_in_the_catalog_is_changed_by_a_request() -> None:
    before = CATALOG.model_copy(deep=True)
    resolve(VALID, ALICE)
    assert before == CATALOG
