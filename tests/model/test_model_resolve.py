"""The one validation: each rule with its field, its code and its status."""

from __future__ import annotations

from typing import Any

import pytest
from model_samples import (
    AGENTS,
    ALICE,
    CATALOG,
    DEFAULT,
    POLICIES_WITH_QUOTA,
    TORCH_28,
    TORCH_29,
    context,
    granted,
    places,
    refused,
    the_error,
)

from jupyterhub_backendai.model.catalog import Catalog, Environment, Preset, ResourceGroup, Version
from jupyterhub_backendai.model.errors import Kind
from jupyterhub_backendai.model.policy import Policies, Policy, Quota
from jupyterhub_backendai.model.resolve import AgentFacts, auto_shm
from jupyterhub_backendai.model.slots import GIB, MIB, Slots
from jupyterhub_backendai.model.spec import SessionSpec, read_spec


def policy(**changes: Any) -> Policy:
    """Alice's usual policy with these changes."""
    return Policy(**{"environments": {"python", "pytorch"}, **changes})


# ---- the whole ----------------------------------------------------------------------------------


def test_nothing_asked_is_the_default_session() -> None:
    session = granted({})
    assert session.environment == "python"
    assert session.image == "example/python:3.11"
    assert session.resource_group == "default"
    assert session.agent is None
    assert (session.preset, session.preset_changed) == ("small", False)
    assert session.slots == Slots(1000, 2 * GIB)
    assert session.shm == 64 * MIB
    assert (session.omp_threads, session.openblas_threads) == (1, 1)
    assert [m.folder for m in session.mounts] == [".config"]
    assert session.name is None
    assert session.type == "interactive"
    assert session.env == {}
    assert session.preopen_ports == ()
    assert session.project is None
    assert session.priority == 10


def test_everything_asked() -> None:
    session = granted(
        {
            "name": "train1", "type": "interactive", "environment": "pytorch", "version": "2.8",
            "image": None, "env": {"MY_VAR": "1"}, "resource_group": "lab", "agent": "gpu-1",
            "preset": "gpu",
            "resources": {"cpu": 2, "mem": "4g", "shm": "1g", "fgpu": 0.3},
            "count": 1, "cluster": {"mode": "single-node", "size": 1},
            "threads": {"omp": 3, "openblas": "4"},
            "mounts": [{"folder": "data", "path": "in", "permission": "ro"}],
            "preopen_ports": [8080, "9000:9001"],
            "batch": None, "owner": "alice", "project": "vision",
        }
    )  # fmt: skip
    assert session.name == "train1"
    assert session.image == TORCH_28
    assert (session.resource_group, session.agent) == ("lab", "gpu-1")
    assert session.slots == Slots(2000, 4 * GIB, 300)
    assert session.shm == GIB
    assert session.preset_changed
    assert (session.omp_threads, session.openblas_threads) == (3, 4)
    assert session.preopen_ports == (8080, 9000, 9001)
    assert session.project == "vision"
    assert [(m.folder, m.target, m.permission) for m in session.mounts] == [
        ("data", "/home/work/in", "ro"),
        (".config", "/home/work/.config", "rw"),
    ]


def test_what_an_untouched_form_or_program_sends_is_the_default() -> None:
    fields = SessionSpec.model_fields
    assert granted(dict.fromkeys(fields, None)) == granted({})
    assert granted(dict.fromkeys(fields, "")) == granted({})
    empty = {"resources": dict.fromkeys(("cpu", "mem", "shm", "fgpu"), ""), "mounts": [], "env": {}}
    assert granted({**empty, "batch": {"command": "", "starts_at": "", "timeout": ""}}) == granted(
        {}
    )


def test_all_errors_are_told_at_once() -> None:
    options = {
        "name": "a", "type": "batch", "env": {"HOME": "/", "1": "", "OK": 5},
        "resource_group": "private", "resources": {"cpu": "x", "mem": "900g"},
        "count": 2, "cluster": {"size": 0}, "threads": {"omp": 0, "openblas": 1001},
        "mounts": [
            {"folder": "nope"}, {"folder": "data", "path": "../x"}, {"path": "y"},
            {"folder": "papers", "permission": "rw"}, {"folder": "models", "permission": "wd"},
        ],
        "preopen_ports": [80, "x", 8080, 8080, 6006], "owner": "bob", "project": "other",
        "typ": 1, "version": "1.0",
    }  # fmt: skip
    assert places(options) == [
        ("cluster.size", "greater_than_equal"),
        ("count", "not_available"),
        ("env.1", "bad_name"),
        ("env.HOME", "reserved"),
        ("env.OK", "not_text"),
        ("mounts.0.folder", "unknown"),
        ("mounts.1.path", "bad_path"),
        ("mounts.2.folder", "missing"),
        ("mounts.3.permission", "read_only"),
        ("mounts.4.permission", "literal_error"),
        ("name", "too_short"),
        ("owner", "not_owner"),
        ("preopen_ports.0", "out_of_range"),
        ("preopen_ports.1", "bad_port"),
        ("preopen_ports.3", "duplicate"),
        ("project", "not_member"),
        ("resource_group", "unknown"),
        ("resources.cpu", "not_a_number"),
        ("threads.omp", "greater_than_equal"),
        ("threads.openblas", "less_than_equal"),
        ("typ", "extra_forbidden"),
        ("type", "not_available"),
        ("version", "unknown"),
    ]  # how much memory fits is told as soon as there is a group to tell it for
    assert refused(options).status == 400


@pytest.mark.parametrize("options", [None, [], "x", 1, True, [{}], [["name", "x"]]])
def test_options_are_an_object(options: object) -> None:
    error = the_error(options)
    assert (error.field, error.code) == ("", "not_an_object")


@pytest.mark.parametrize("key", ["typ", "Name", "gpu", "", "__class__", "model_config", "ünïcode"])
def test_unknown_settings_are_refused_by_name(key: str) -> None:
    error = the_error({key: 1})
    assert error.field == key.encode("ascii", "replace").decode()
    assert error.code == "extra_forbidden"
    assert error.message == "There is no such setting. Remove it."
    inner = the_error({"resources": {key or "x": 1}})
    assert inner.field.startswith("resources.")


def test_an_unreadable_part_hides_nothing_else_and_causes_nothing_else() -> None:
    # The preset alone has too little memory; what was meant cannot be known.
    assert places(
        {"environment": "pytorch", "preset": "medium", "resources": {"mem": "4 gibs"}}
    ) == [("resources.mem", "not_a_size")]
    assert places(
        {"environment": "pytorch", "resources": {"cpu": 1, "mem": "?", "shm": "99g"}}
    ) == [
        ("resources.cpu", "too_little"),
        ("resources.mem", "not_a_size"),
    ]
    assert places({"environment": "x" * 300, "version": "2.9"}) == [
        ("environment", "string_too_long")
    ]
    assert places({"resource_group": 5, "agent": "gpu-1", "resources": {"fgpu": 99}}) == [
        ("resource_group", "string_type")
    ]


# ---- name, kind, owner, project -----------------------------------------------------------------


def test_a_name_in_use_is_a_conflict() -> None:
    error = refused({"name": "taken"})
    assert error.status == 409
    assert error.errors[0].code == "in_use"
    assert "leave it empty" in error.errors[0].message
    assert granted({"name": "taken"}, context(names_in_use=frozenset())).name == "taken"


@pytest.mark.parametrize(
    "name", ["ab", "a" * 65, "-abc", "abc.", "from-template", "a b c d", 5, ["x"]]
)
def test_bad_names(name: object) -> None:
    assert the_error({"name": name}).field == "name"


def test_batch_needs_the_service_and_its_settings_a_batch_session() -> None:
    error = the_error({"type": "batch", "batch": {"command": "x"}})
    assert (error.field, error.code) == ("type", "not_available")
    assert "which is off" in error.message
    assert the_error({"batch": {"command": "x"}}).field == "batch"
    assert places({"type": "batch", "batch": {"starts_at": "tomorrow"}})[0][0] == "batch.starts_at"
    zone = refused({"type": "batch", "batch": {"starts_at": "2026-12-01T09:00:00"}}).errors[0]
    assert "zone" in zone.message
    assert the_error({"type": "inference"}).message == "Choose one of: 'interactive' or 'batch'."


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"count": 2}, "count"),
        ({"count": 0}, "count"),
        ({"count": True}, "count"),
        ({"count": 1.5}, "count"),
        ({"count": float("nan")}, "count"),
        ({"count": 10**4000}, "count"),
        ({"cluster": {"size": 2}}, "cluster.size"),
        ({"cluster": {"size": False}}, "cluster.size"),
        ({"cluster": {"mode": "many"}}, "cluster.mode"),
        ({"cluster": []}, "cluster"),
        ({"threads": {"omp": 0}}, "threads.omp"),
        ({"threads": {"omp": 1001}}, "threads.omp"),
        ({"threads": {"openblas": "two"}}, "threads.openblas"),
        ({"threads": {"openblas": True}}, "threads.openblas"),
    ],
)
def test_numbers_that_are_none_of_ours(options: dict[str, Any], field: str) -> None:
    assert the_error(options).field == field


def test_threads_follow_the_cores_unless_they_are_set() -> None:
    for cpu, threads in ((4, 4), (0.5, 1), (1.5, 2), ("2.001", 3)):
        session = granted({"resources": {"cpu": cpu}})
        assert (session.omp_threads, session.openblas_threads) == (threads, threads)
    session = granted({"resources": {"cpu": 4}, "threads": {"omp": 1}})
    assert (session.omp_threads, session.openblas_threads) == (1, 4)


def test_sessions_are_for_oneself() -> None:
    assert granted({"owner": "alice"})
    for asks in (ALICE, context(admin=True)):
        error = refused({"owner": "bob"}, asks)
        assert error.status == 403
        assert error.errors[0].field == "owner"


def test_a_project_is_one_of_the_users_groups() -> None:
    with_quota = context(policies=POLICIES_WITH_QUOTA)
    assert granted({}, with_quota).project == "vision"
    assert granted({"project": "vision"}).project == "vision"
    assert granted({}, context(policies=POLICIES_WITH_QUOTA, groups=frozenset())).project is None
    error = refused({"project": "nlp"})
    assert error.status == 403
    assert error.errors[0].field == "project"
    # A group without a quota is no way out of one that has one.
    both = context(policies=POLICIES_WITH_QUOTA, groups=frozenset({"vision", "everyone"}))
    error = refused({"project": "everyone"}, both)
    assert (error.status, error.errors[0].code) == (403, "no_project")


def test_who_may_have_no_session_at_all_is_told_so() -> None:
    error = refused({}, context(policy(max_sessions=0)))
    assert (error.status, error.errors[0].code) == (403, "no_sessions")
    none = Policies(default=DEFAULT, projects={"vision": Quota(max_sessions=0)})
    error = refused({}, context(policies=none))
    assert (error.status, error.errors[0].field) == (403, "project")
    # More sessions than may run at once are no error: they wait.
    assert granted({}, context(policy(max_sessions=1, max_pending=0)))


# ---- environment, version, image ----------------------------------------------------------------


def test_the_first_version_is_the_default_one() -> None:
    session = granted({"environment": "pytorch", "preset": "medium"})
    assert (session.version, session.image) == ("2.9", TORCH_29)
    assert granted({"version": "default"}).environment == "python"


@pytest.mark.parametrize(
    ("options", "field", "code"),
    [
        ({"environment": "tensorflow"}, "environment", "unknown"),
        ({"environment": "Python"}, "environment", "unknown"),
        ({"environment": "pytorch", "version": "3", "preset": "medium"}, "version", "unknown"),
        ({"version": "2.9"}, "version", "unknown"),
        ({"environment": 5}, "environment", "string_type"),
        ({"image": "Not An Image"}, "image", "bad_image"),
        ({"image": 5}, "image", "not_text"),
    ],
)
def test_unknown_environments(options: dict[str, Any], field: str, code: str) -> None:
    error = the_error(options)
    assert (error.field, error.code) == (field, code)
    assert refused(options).status == 400


def test_what_could_be_chosen_is_said() -> None:
    assert the_error({"environment": "r"}).message == (
        "r is not offered. Choose one of: python, pytorch."
    )
    long = the_error({"environment": "<b>\n" + "x" * 200}).message
    assert long.isprintable()
    assert len(long) < 120
    # Where there is nothing to choose from, no empty list is offered.
    none = the_error({"preset": "s"}, context(catalog=Catalog(environments=CATALOG.environments)))
    assert none.message == "s is not offered."


def test_an_environment_that_policy_leaves_out_is_forbidden() -> None:
    error = refused({"environment": "secret"})
    assert (error.status, error.errors[0].field) == (403, "environment")
    error = refused({"image": "example/secret:1"})
    assert (error.status, error.errors[0].field) == (403, "image")
    nothing = context(Policy(environments=frozenset()))
    assert (refused({}, nothing).status, the_error({}, nothing).code) == (403, "none_allowed")
    assert granted({"environment": "secret"}, context(Policy()))


def test_the_image_of_an_environment_is_that_environment() -> None:
    session = granted({"image": TORCH_28, "preset": "medium"})
    assert (session.environment, session.version) == ("pytorch", "2.8")
    both = {"image": TORCH_28, "environment": "pytorch", "version": "2.8", "preset": "medium"}
    assert granted(both) == session
    assert the_error({**both, "version": "2.9"}).code == "ambiguous"
    assert (
        the_error({"image": TORCH_28, "environment": "python", "preset": "medium"}).field == "image"
    )
    # Its minimum counts as well.
    assert the_error({"image": TORCH_28, "preset": "small", "resources": {"mem": "8g"}}).field == (
        "resources.cpu"
    )


def test_two_environments_of_one_image() -> None:
    one, two = (
        Environment(name=n, image="same:1", minimum={"cpu": cpu}) for n, cpu in (("a", 1), ("b", 2))
    )
    of = context(Policy(), catalog=Catalog(environments=(one, two)))
    assert granted({"image": "same:1"}, of).environment == "a"
    assert granted({"image": "same:1", "environment": "b"}, of).environment == "b"
    only_b = context(Policy(environments={"b"}), catalog=Catalog(environments=(one, two)))
    assert granted({"image": "same:1"}, only_b).environment == "b"


def test_an_image_by_hand_only_where_policy_says_so() -> None:
    error = refused({"image": "other/image:1"})
    assert (error.status, error.errors[0].field) == (403, "image")
    manual = context(policy(manual_image=True))
    session = granted({"image": "other/image:1"}, manual)
    assert (session.image, session.environment, session.version) == ("other/image:1", None, None)
    # Without a tag the engine could read it as the id of any image on the machine.
    assert granted({"image": "deadbeef"}, manual).image == "deadbeef:latest"
    assert the_error({"image": "sha256:" + "0" * 64}, manual).code == "bad_image"
    assert (
        the_error({"image": "other/image:1", "environment": "python"}, manual).code == "ambiguous"
    )
    assert granted({"image": TORCH_28, "preset": "medium"}, manual).environment == "pytorch"


# ---- group, agent -------------------------------------------------------------------------------


def test_groups() -> None:
    assert granted({"resource_group": "lab"}).resource_group == "lab"
    for name in ("private", "nowhere"):  # one answer, so that nobody learns which there are
        error = the_error({"resource_group": name})
        assert (error.code, error.message) == (
            "unknown",
            f"{name} is not offered. Choose one of: default, lab.",
        )
    outside = context(groups=frozenset())
    assert the_error({"resource_group": "lab"}, outside).field == "resource_group"
    only_lab = context(policy(resource_groups={"lab"}))
    assert granted({}, only_lab).resource_group == "lab"
    nowhere = context(policy(resource_groups=frozenset()))
    assert (refused({}, nowhere).status, the_error({}, nowhere).field) == (403, "resource_group")


def test_agents() -> None:
    assert granted({"agent": "auto"}).agent is None
    assert granted({"agent": "deep"}).agent == "deep"
    for name in ("gpu-1", "nowhere", "Auto"):
        error = the_error({"agent": name})
        assert (error.field, error.code) == ("agent", "unknown")
    error = refused({"agent": "deep"}, context(policy(choose_agent=False)))
    assert (error.status, error.errors[0].field) == (403, "agent")
    fixed = Catalog(
        environments=CATALOG.environments,
        resource_groups=(ResourceGroup(name="default", choose_agent=False),),
    )
    assert refused({"agent": "deep"}, context(catalog=fixed)).status == 403


# ---- amounts ------------------------------------------------------------------------------------


def test_single_amounts_override_the_preset() -> None:
    session = granted({"preset": "medium", "resources": {"cpu": "2.5"}})
    assert (session.slots, session.shm) == (Slots(2500, 8 * GIB), GIB)
    assert (session.preset, session.preset_changed) == ("medium", True)
    same = granted({"preset": "medium", "resources": {"cpu": 4, "mem": "8GiB", "shm": "1024m"}})
    assert not same.preset_changed
    assert same == granted({"preset": "medium"})
    assert granted({"preset": "medium", "resources": {"shm": "2g"}}).preset_changed


def test_the_default_preset_is_the_first_that_can_be_granted() -> None:
    assert granted({"environment": "pytorch"}).preset == "medium"  # small is too small for it
    assert granted({}, context(policy(per_session={"cpu": "0.5"}))).preset is None
    gpu = Environment(name="cuda", image="cuda:1", minimum={"fgpu": "0.2"})
    catalog = Catalog(
        environments=(gpu,), presets=CATALOG.presets, resource_groups=CATALOG.resource_groups
    )
    assert granted({"resource_group": "lab"}, context(Policy(), catalog=catalog)).preset == "gpu"
    assert granted(
        {"environment": "pytorch"}, context(policy(per_session={"shm": "512m"}))
    ).preset is (None)


def test_fgpu_where_no_agent_has_any() -> None:
    asked = {"cpu": 1, "mem": "1g", "fgpu": "0.5"}
    gpu = Preset(name="share", cpu=1, mem="1g", fgpu="0.5")
    catalog = CATALOG.model_copy(update={"presets": (gpu, *CATALOG.presets)})
    for options in ({"resources": asked}, {"preset": "share"}):
        for agents in (AGENTS[:2], ()):
            error = the_error(options, context(catalog=catalog, agents=agents))
            assert (error.field, error.message) == ("resources.fgpu", "default has no GPUs.")
            assert error.kind is Kind.INVALID
    both = (*AGENTS, AgentFacts("plain", "lab", Slots(8000, 16 * GIB)))
    lab = context(catalog=catalog, agents=both)
    assert granted({"resource_group": "lab", "resources": asked}, lab).fgpu == 500
    on_plain = {"resource_group": "lab", "agent": "plain", "resources": asked}
    assert the_error(on_plain, lab).message == "plain has no GPUs."
    # Nobody is given by default what no agent has.
    assert granted({}, context(catalog=catalog)).preset == "small"
    # Of an agent that never answered nobody knows: the queue tells when it does.
    unknown = context(catalog=catalog, agents=(AgentFacts("new", "default", Slots()),))
    assert granted({"resources": asked}, unknown).fgpu == 500


def test_presets() -> None:
    assert granted({"preset": "gpu", "resource_group": "lab"}).fgpu == 500
    assert the_error({"preset": "gpu"}).code == "unknown"  # of another group
    assert the_error({"preset": "tiny"}).field == "preset"
    assert {e.field for e in refused({"preset": "huge"}).errors} == {
        "resources.cpu",
        "resources.mem",
    }


def test_without_presets_a_core_and_a_gigabyte_or_what_is_needed_or_allowed() -> None:
    bare = Catalog(environments=CATALOG.environments, resource_groups=CATALOG.resource_groups)
    assert granted({}, context(catalog=bare)).slots == Slots(1000, GIB)
    assert granted({"environment": "pytorch"}, context(catalog=bare)).slots == Slots(2000, 4 * GIB)
    little = context(policy(per_session={"cpu": "0.5", "mem": "512m"}), catalog=bare)
    assert granted({}, little).slots == Slots(500, 512 * MIB)


@pytest.mark.parametrize(
    ("resources", "field", "code"),
    [
        ({"cpu": 0}, "resources.cpu", "too_little"),
        ({"cpu": "0.009"}, "resources.cpu", "too_little"),
        ({"cpu": -1}, "resources.cpu", "not_a_number"),
        ({"cpu": True}, "resources.cpu", "not_a_number"),
        ({"cpu": "0.0001"}, "resources.cpu", "too_fine"),
        ({"cpu": 33}, "resources.cpu", "too_much"),
        ({"mem": 0}, "resources.mem", "too_little"),
        ({"mem": 4}, "resources.mem", "too_little"),
        ({"mem": "63m"}, "resources.mem", "too_little"),
        ({"mem": "four"}, "resources.mem", "not_a_size"),
        ({"mem": "65g"}, "resources.mem", "too_much"),
        ({"shm": 0}, "resources.shm", "too_little"),
        ({"shm": "3g"}, "resources.shm", "too_much"),
        ({"shm": -1}, "resources.shm", "not_a_size"),
        ({"fgpu": 1}, "resources.fgpu", "too_much"),
        ({"fgpu": float("inf")}, "resources.fgpu", "not_a_number"),
        ({"gpu": 1}, "resources.gpu", "too_much"),
        ({"gpu": 0.5}, "resources.gpu", "not_whole"),
        ({"tpu": 1}, "resources.tpu", "extra_forbidden"),
        ({"cpu": 32, "mem": "64g"}, "resources", "too_much"),
        ([], "resources", "model_type"),
        ("4g", "resources", "model_type"),
    ],
)
def test_amounts_that_cannot_be(resources: object, field: str, code: str) -> None:
    error = the_error({"resources": resources})
    assert (error.field, error.code) == (field, code)
    assert refused({"resources": resources}).status == 400


def test_the_sentences_say_what_would_be_possible() -> None:
    def message(resources: dict[str, Any], **more: Any) -> str:
        return the_error({"resources": resources, **more}).message

    assert message({"cpu": 33}) == "Never fits: the largest machine of default has 32 CPU cores."
    assert message({"mem": "20g"}, agent="wide") == "Never fits: wide has 16 GB of memory."
    assert message({"fgpu": 1}) == "default has no GPUs."
    assert message({"fgpu": "7"}, resource_group="lab") == (
        "Never fits: the largest machine of lab has 6 FGPU."
    )
    assert message({"cpu": 32, "mem": "64g"}) == (
        "Never fits: no machine has 32 CPU cores, 64 GB of memory together."
    )
    assert message({"shm": "3g"}) == (
        "Shared memory is part of memory, so it cannot be more than 2 GB."
    )
    assert message({"mem": "2g"}, environment="pytorch") == "PyTorch needs at least 4 GB of memory."
    assert message({"cpu": 0}) == "A session needs at least 0.01 CPU cores."


def test_what_fits_each_machine_in_part_and_none_as_a_whole_never_fits() -> None:
    assert granted({"resources": {"cpu": 32, "mem": "16g"}})
    assert granted({"resources": {"cpu": 8, "mem": "64g"}})
    assert the_error({"resources": {"cpu": 9, "mem": "17g"}}).field == "resources"
    assert the_error({"resources": {"cpu": 9}, "agent": "deep"}).field == "resources.cpu"


def test_an_agent_that_never_answered_bounds_nothing() -> None:
    for agents in ((), (AgentFacts("wide", "default", Slots()),)):
        session = granted({"resources": {"cpu": 999, "mem": "9t"}}, context(agents=agents))
        assert session.cpu == 999_000
    assert the_error({"resources": {"cpu": 33}}, context(agents=(*AGENTS, agents[0]))).field == (
        "resources.cpu"
    )


LIMITS = [
    (context(policy(per_session={"cpu": 2})), "Your limit for one session is 2 CPU cores."),
    (context(policy(total={"cpu": 2})), "Never fits: your limit is 2 CPU cores."),
    (
        context(policies=POLICIES_WITH_QUOTA),
        "Never fits: the limit of vision as a whole is 3 CPU cores.",
    ),
]


@pytest.mark.parametrize(("of", "message"), LIMITS)
def test_more_than_a_limit_is_forbidden(of: Any, message: str) -> None:
    error = refused({"resources": {"cpu": 4}}, of)
    assert (error.status, error.errors[0].field) == (403, "resources.cpu")
    assert error.errors[0].message == message
    assert granted({"resources": {"cpu": 2}}, of)


def test_a_groups_limit_is_for_one_session() -> None:
    error = refused({"resource_group": "lab", "resources": {"cpu": 17}})
    assert (error.status, error.errors[0].message) == (
        403,
        "The limit of lab for one session is 16 CPU cores.",
    )


def test_the_project_that_is_named_counts() -> None:
    quota = Policies(default=DEFAULT, projects={"a": Quota(total={"cpu": 2}), "b": Quota()})
    of = context(policies=quota, groups=frozenset({"a", "b"}))
    assert the_error({"resources": {"cpu": 4}}, of).field == "resources.cpu"
    assert granted({"resources": {"cpu": 4}, "project": "b"}, of).project == "b"


def test_policy_before_impossibility_but_impossibility_decides_the_status() -> None:
    of = context(policy(per_session={"cpu": 2}))
    error = refused({"resources": {"cpu": 4, "mem": "999g"}}, of)
    assert [e.kind.value for e in error.errors] == [403, 400]
    assert error.status == 400


# ---- shared memory ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mem", "minimum", "shm"),
    [
        (4 * GIB, 0, GIB),
        (4 * GIB, 3 * GIB, GIB),
        (4 * GIB, 3 * GIB + 1, 64 * MIB),
        (4 * GIB - 1, 0, 64 * MIB),
        (64 * MIB, 0, 64 * MIB),
        (MIB, 0, MIB),
    ],
)
def test_shared_memory_by_itself(mem: int, minimum: int, shm: int) -> None:
    assert auto_shm(mem, minimum) == shm


def test_shared_memory_is_at_most_the_memory_and_may_be_all_of_it() -> None:
    assert granted({"resources": {"mem": "2g", "shm": "2g"}}).shm == 2 * GIB
    assert the_error({"resources": {"mem": "2g", "shm": "2049m"}}).field == "resources.shm"


def test_who_says_how_much_shared_memory() -> None:
    versions = (Version(name="1", image="a:1", shm="256m"), Version(name="2", image="a:2"))
    environment = Environment(name="a", versions=versions, minimum={"shm": "128m"})
    presets = (
        Preset(name="p", cpu=1, mem="8g"),
        Preset(name="q", cpu=1, mem="8g", shm="2g"),
    )
    of = context(Policy(), catalog=Catalog(environments=(environment,), presets=presets))
    assert granted({"resources": {"shm": "3g"}, "preset": "q"}, of).shm == 3 * GIB
    assert granted({"preset": "q"}, of).shm == 2 * GIB
    assert granted({"preset": "p"}, of).shm == 256 * MIB
    assert granted({"preset": "p", "version": "2"}, of).shm == 128 * MIB
    # What nobody asked for by name gives way to the memory that somebody asked for.
    assert granted({"preset": "q", "resources": {"mem": "1g"}}, of).shm == 256 * MIB
    assert granted({"preset": "p", "resources": {"mem": "100m"}}, of).shm == 64 * MIB


def test_a_limit_on_shared_memory_binds_who_asks_and_shapes_what_nobody_asked() -> None:
    of = context(policy(per_session={"shm": "512m"}))
    assert granted({"resources": {"mem": "8g"}}, of).shm == 512 * MIB
    error = refused({"resources": {"mem": "8g", "shm": "600m"}}, of)
    assert (error.status, error.errors[0].message) == (
        403,
        "Your limit for shared memory is 512 MB.",
    )
    assert refused({"preset": "medium"}, of).status == 403


# ---- variables ----------------------------------------------------------------------------------


def test_variables_as_an_object_or_as_rows() -> None:
    env = {"A": "1", "B": "", "PATH": "/x:$PATH", "C": "{username} {{ x }} %s ${Y} ü"}
    rows = [{"name": name, "value": value} for name, value in env.items()]
    assert granted({"env": env}).env == granted({"env": rows}).env == env
    assert granted({"env": [*rows, {"name": "", "value": ""}, {}]}).env == env
    assert granted({"env": [{"name": "A"}]}).env == {"A": ""}


@pytest.mark.parametrize(
    ("env", "field", "code"),
    [
        ({"HOME": "/"}, "env.HOME", "reserved"),
        ({"jupyterhub_user": "x"}, "env.jupyterhub_user", "reserved"),
        ({"A B": "x"}, "env.A B", "bad_name"),
        ({"": "x"}, "env.", "bad_name"),
        ({"A": 1}, "env.A", "not_text"),
        ({"A": None}, "env.A", "not_text"),
        ({"A": "x" * 32769}, "env.A", "too_long"),
        ({"A": "a\x00b"}, "env.A", "bad_text"),
        ({"A": "\ud800"}, "env.A", "bad_text"),
        ([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], "env.1", "duplicate"),
        ([{"name": "A", "x": "1"}], "env.0", "bad_row"),
        (["A=1"], "env.0", "bad_row"),
        ([{"value": "1"}], "env.0", "not_text"),
        ("A=1", "env", "dict_type"),
        (5, "env", "dict_type"),
        ({f"A{i}": "" for i in range(101)}, "env", "too_many"),
    ],
)
def test_no_variables(env: object, field: str, code: str) -> None:
    error = the_error({"env": env})
    assert (error.field, error.code) == (field, code)


# ---- ports --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ports", "found"),
    [
        ([8080], (8080,)),
        (["8000:8002", 9000], (8000, 8001, 8002, 9000)),
        ("8080, 8081 8082,8083", (8080, 8081, 8082, 8083)),
        ("", ()),
        ([], ()),
        (None, ()),
    ],
)
def test_ports(ports: object, found: tuple[int, ...]) -> None:
    assert granted({"preopen_ports": ports}).preopen_ports == found


@pytest.mark.parametrize(
    ("ports", "field", "code"),
    [
        ([1023], "preopen_ports.0", "out_of_range"),
        ([8080, 65536], "preopen_ports.1", "out_of_range"),
        ([8080, "8079:8081"], "preopen_ports.1", "duplicate"),
        ("8080 8080", "preopen_ports.1", "duplicate"),
        ([2200], "preopen_ports.0", "reserved"),
        ([[8080]], "preopen_ports.0", "bad_port"),
        ({"a": 1}, "preopen_ports", "list_type"),
        (8080, "preopen_ports", "list_type"),
        ("3000:3999", "preopen_ports", "too_many"),
        (" ".join(f"{n}001:{n + 1}000" for n in range(10, 60)), "preopen_ports", "too_many"),
    ],
)
def test_no_ports(ports: object, field: str, code: str) -> None:
    error = the_error({"preopen_ports": ports})
    assert (error.field, error.code) == (field, code)
    assert refused({"preopen_ports": ports}).status == 400


def test_the_eleventh_port_is_forbidden() -> None:
    ten = list(range(8000, 8010))
    assert granted({"preopen_ports": ten}).preopen_ports == tuple(ten)
    error = refused({"preopen_ports": [*ten, 8010]})
    assert (error.status, error.errors[0].field) == (403, "preopen_ports")
    assert granted({"preopen_ports": [*ten, 8010]}, context(policy(max_preopen_ports=11)))


def test_a_port_of_an_app_is_taken() -> None:
    error = the_error({"environment": "pytorch", "preopen_ports": [8080, 6006]})
    assert (error.field, error.message) == (
        "preopen_ports.1",
        "Port 6006 is used by TensorBoard.",
    )
    assert granted({"preopen_ports": [6006]})


# ---- mounts -------------------------------------------------------------------------------------


def mounted(*mounts: Any, of: Any = ALICE) -> list[tuple[str, str, str]]:
    """(folder, target, permission) of what is mounted, without the folder that always comes."""
    return [
        (m.folder, m.target, m.permission)
        for m in granted({"mounts": list(mounts)}, of).mounts
        if m.folder != ".config"
    ]


def test_places_of_folders() -> None:
    assert mounted({"folder": "data"}) == [("data", "/home/work/data", "rw")]
    assert mounted({"folder": "data", "path": "a/b/"}) == [("data", "/home/work/a/b", "rw")]
    assert mounted({"folder": "data", "path": "/data"}) == [("data", "/data", "rw")]
    assert mounted({"folder": "vision/pool"}) == [("vision/pool", "/home/work/pool", "rw")]
    assert mounted({"folder": "data", "path": "data"}) == [("data", "/home/work/data", "rw")]


def test_permissions_of_folders() -> None:
    assert mounted({"folder": "data", "permission": "ro"})[0][2] == "ro"
    assert mounted({"folder": "papers"})[0][2] == "ro"  # as the folder allows
    assert mounted({"folder": "papers", "permission": "ro"})[0][2] == "ro"
    error = refused({"mounts": [{"folder": "papers", "permission": "rw"}]})
    assert (error.status, error.errors[0].field) == (403, "mounts.0.permission")


def test_dot_folders_come_by_themselves() -> None:
    assert [m.target for m in granted({}).mounts] == ["/home/work/.config"]
    named = granted({"mounts": [{"folder": ".config", "path": "conf", "permission": "ro"}]})
    assert [(m.target, m.permission) for m in named.mounts] == [("/home/work/conf", "ro")]
    brew = context(folders={".linuxbrew": ALICE.folders[".config"].model_copy(
        update={"name": ".linuxbrew"})})  # fmt: skip
    assert [m.target for m in granted({}, brew).mounts] == ["/home/linuxbrew/.linuxbrew"]


@pytest.mark.parametrize(
    ("mounts", "field", "code"),
    [
        ([{"folder": "nope"}], "mounts.0.folder", "unknown"),
        ([{"folder": "Data"}], "mounts.0.folder", "unknown"),
        ([{"folder": "../bob/data"}], "mounts.0.folder", "unknown"),
        ([{"folder": ""}], "mounts.0.folder", "string_too_short"),
        ([{"folder": None}], "mounts.0.folder", "string_type"),
        ([{"folder": "data"}, {"folder": "data"}], "mounts.1.folder", "duplicate"),
        ([{"folder": "data"}, {"folder": "models", "path": "data"}], "mounts.1.path", "taken"),
        ([{"folder": "data"}, {"folder": "models", "path": "data/"}], "mounts.1.path", "taken"),
        (
            [{"folder": "data", "path": "x"}, {"folder": "models", "path": "/home/work/data"}],
            "mounts.1.path",
            "taken",
        ),
        ([{"folder": "data"}, {"folder": "models", "path": "data/in"}], "mounts.1.path", "overlap"),
        (
            [{"folder": "models", "path": "x/y"}, {"folder": "data", "path": "x"}],
            "mounts.0.path",
            "overlap",
        ),
        ([{"folder": "data"}, {"folder": "vision/data"}], "mounts.1.path", "overlap"),
        ([{"folder": "data", "path": ".config"}], "mounts.0.path", "overlap"),
        ([{"folder": "data", "path": ".config/x"}], "mounts.0.path", "overlap"),
        ([{"folder": "data", "path": "../x"}], "mounts.0.path", "bad_path"),
        ([{"folder": "data", "path": "/etc"}], "mounts.0.path", "reserved"),
        ([{"folder": "data", "path": ".ssh"}], "mounts.0.path", "reserved"),
        ([{"folder": "data", "path": "/home/work"}], "mounts.0.path", "reserved"),
        ([{"folder": "data", "path": 5}], "mounts.0.path", "string_type"),
        ([{"folder": "data", "permission": "wd"}], "mounts.0.permission", "literal_error"),
        ([{"folder": "data", "create": "yes"}], "mounts.0.create", "bool_type"),
        ([{"folder": "data", "subpath": "x"}], "mounts.0.subpath", "extra_forbidden"),
        ([{}], "mounts.0.folder", "missing"),
        (["data"], "mounts.0", "model_type"),
        ("data", "mounts", "tuple_type"),
        ({"folder": "data"}, "mounts", "tuple_type"),
        ([{"folder": f"f{n}"} for n in range(101)], "mounts", "too_long"),
        ([*({"folder": f"f{n}"} for n in range(100)), {}], "mounts.100.folder", "missing"),
    ],
)
def test_no_mounts(mounts: object, field: str, code: str) -> None:
    error = the_error({"mounts": mounts})
    assert (error.field, error.code) == (field, code)
    assert refused({"mounts": mounts}).status == 400


def test_several_of_too_many_mounts_that_cannot_be_read() -> None:
    found = refused({"mounts": [{"folder": ""}, *({"folder": "data"} for _ in range(100)), {}]})
    assert [error.field for error in found.errors] == ["mounts.0.folder", "mounts.101.folder"]


def test_a_folder_can_be_made_with_the_session() -> None:
    session = granted({"mounts": [{"folder": "new", "create": True, "path": "n"}]})
    made = next(m for m in session.mounts if m.create)
    assert (made.folder, made.target, made.project) == ("new", "/home/work/n", None)
    # One that is there already is mounted.
    again = granted({"mounts": [{"folder": "data", "create": True}]})
    assert not any(m.create for m in again.mounts)
    for name in ("vision/new", "..", "a b", ".ssh", "x" * 65):
        error = the_error({"mounts": [{"folder": name, "create": True}]})
        assert error.field == "mounts.0.folder"


def test_a_limit_on_folders_is_policy() -> None:
    of = context(policy(max_folders=5))
    assert granted({"mounts": [{"folder": "new1", "create": True}]}, of)
    two = [{"folder": "new1", "create": True}, {"folder": "new2", "create": True}]
    error = refused({"mounts": two}, of)
    assert (error.status, error.errors[0].field) == (403, "mounts.0.folder")
    assert error.errors[0].message == "You have 4 folders, and your limit is 5."


def test_a_hub_without_folders_says_so() -> None:
    of = context(folders={}, folders_enabled=False)
    assert granted({}, of).mounts == ()
    for mount in ({"folder": "data"}, {"folder": "data", "create": True}):
        assert the_error({"mounts": [mount]}, of).code == "no_folders"


def test_an_unreadable_spec_still_is_a_spec() -> None:
    spec, errors = read_spec({"mounts": [{"folder": "a"}, {"path": 5}], "count": "x"})
    assert [m.folder for m in spec.mounts] == ["a", ""]
    assert spec.count == 1
    assert [e.field for e in errors] == ["count", "mounts.1.folder", "mounts.1.path"]
