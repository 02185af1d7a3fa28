"""A session from launch to end: what is inside, what stays, what goes."""

from __future__ import annotations

import pytest

from .harness import Hub, wait_for

pytestmark = pytest.mark.docker
SETTINGS = {
    "BackendAI": {
        "presets": [{"name": "small", "cpu": 0.5, "mem": "512m"}],
        "capabilities": ["SYS_NICE"],
    }
}


def test_a_session_is_exactly_what_was_asked(hub: Hub) -> None:
    user = hub.add_user("alice")
    options = {
        "name": "exact",
        "resources": {"cpu": 0.75, "mem": "640m", "shm": "96m"},
        "env": {"GREETING": "{username} {} $HOME `id`", "PATH": "/opt/venv/bin:/usr/bin:/bin"},
        "mounts": [{"folder": "data", "create": True}, {"folder": "raw", "create": True}],
        "threads": {"omp": 3},
        "preopen_ports": [8080],
    }
    assert hub.launch(user, options).status_code in {201, 202}
    hub.until_ready(user)
    (session,) = hub.sessions(user)
    assert (session["status"], session["name"]) == ("RUNNING", "exact")

    facts = hub.container_of(session["id"]).attrs
    config, host = facts["Config"], facts["HostConfig"]
    assert host["CpuQuota"] == 75_000
    assert host["Memory"] == host["MemorySwap"] == 640 * 2**20
    assert host["ShmSize"] == 96 * 2**20
    assert host["PidsLimit"] == 4096
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] == ["SYS_NICE"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Init"] is True
    assert config["User"] == "1000:100"
    assert config["Labels"]["backendai.user"] == user
    assert config["Labels"]["backendai.kernel"] == "main1"

    environment = dict(line.partition("=")[::2] for line in config["Env"])
    assert environment["GREETING"] == "{username} {} $HOME `id`"
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["OPENBLAS_NUM_THREADS"] == "1"
    assert environment["BACKENDAI_SESSION_NAME"] == "exact"
    assert environment["BACKENDAI_PREOPEN_PORTS"] == "8080"
    assert environment["HOME"] == "/home/work"

    inside = hub.run_inside(
        session["id"], "stat", "-c", "%u:%g %n", "/home/work", "/home/work/data"
    )
    assert inside.split() == ["1000:100", "/home/work", "1000:100", "/home/work/data"]
    assert hub.held() != []
    end(hub, user)
    steps = hub.sub_steps(session["id"])
    assert {result for of in steps.values() for _, result, _ in of} == {"SUCCESS"}
    assert {phase: [step for step, _, _ in of] for phase, of in steps.items()} == {
        "schedule": [
            "check_limits", "check_dependencies", "check_start_time", "check_agents",
            "check_owner_quota", "check_project_quota", "check_turn", "select_agent", "allocate",
        ],
        "prepare": ["check_image", "make_folders"],
        "create": ["create_container", "copy_files", "start_container", "wait_for_server"],
        "terminate": ["stop_container", "save_log", "remove_container"],
    }  # fmt: skip


def end(hub: Hub, user: str) -> None:
    """Ends the default server and sees that nothing but folders is left."""
    assert hub.delete(user).status_code in {202, 204}
    hub.until_over(user)
    wait_for("the containers to go", lambda: not hub.containers())
    wait_for("the homes to go", lambda: not hub.volumes())
    wait_for("the allocation to be free", lambda: not hub.held())
    session = hub.sessions(user)[-1]
    assert session["status"] == "TERMINATED"
    assert session["reason"] == "It was ended through the Hub."


def test_a_folder_outlives_the_session_and_the_home_does_not(hub: Hub) -> None:
    user = hub.add_user("keeper")
    hub.launch(user, {"mounts": [{"folder": "data", "create": True}]})
    hub.until_ready(user)
    first = hub.sessions(user)[-1]["id"]
    hub.run_inside(first, "sh", "-c", "echo kept > data/kept; echo lost > lost")
    end(hub, user)

    hub.launch(user, {"mounts": [{"folder": "data", "permission": "ro", "path": "in/here"}]})
    hub.until_ready(user)
    second = hub.sessions(user)[-1]["id"]
    assert hub.run_inside(second, "cat", "/home/work/in/here/kept") == "kept\n"
    assert "lost" not in hub.run_inside(second, "ls", "/home/work").split()
    denied = hub.run_inside(second, "sh", "-c", "touch in/here/x 2>&1 || echo refused")
    assert "refused" in denied
    end(hub, user)


def test_the_server_ends_by_itself(hub: Hub) -> None:
    user = hub.add_user("crash")
    hub.launch(user)
    hub.until_ready(user)
    session = hub.sessions(user)[-1]["id"]
    hub.container_of(session).kill()
    # DELETE makes the Hub poll at once instead of at its next round.
    assert hub.delete(user).status_code in {202, 204}
    row = wait_for(
        "the end", lambda: [s for s in hub.sessions(user) if s["status"] == "TERMINATED"]
    )[-1]
    assert row["exit_code"] == 137
    assert "exit code 137" in row["reason"]
    wait_for("the container to go", lambda: not hub.containers())
    assert not hub.held()


def test_named_servers_of_one_user_are_separate_sessions(hub: Hub) -> None:
    user = hub.add_user("twins")
    for server in ("one", "two"):
        hub.launch(user, {"name": f"the-{server}"}, server=server)
    for server in ("one", "two"):
        hub.until_ready(user, server)
    assert {s["name"] for s in hub.sessions(user)} == {"the-one", "the-two"}
    again = hub.launch(user, {"name": "the-one"}, server="three")
    assert again.status_code == 409
    assert "already have a session named the-one" in again.json()["message"]
    for server in ("one", "two"):
        hub.delete(user, server)
    wait_for("both to go", lambda: not hub.containers() and not hub.held())


def test_a_name_is_made_up_where_none_is_given(hub: Hub) -> None:
    user = hub.add_user("nameless")
    hub.launch(user)
    hub.until_ready(user)
    assert hub.sessions(user)[-1]["name"].startswith("session-")
    end(hub, user)
