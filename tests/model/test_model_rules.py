"""Rules on single values: names, variables, images, ports, folders, places of mounts."""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.model import rules
from jupyterhub_backendai.model.errors import Problem


def code(check: object, *args: object) -> str:
    """The code of the problem that a check finds."""
    with pytest.raises(Problem) as caught:
        check(*args)  # type: ignore[operator]
    assert caught.value.message.endswith(".")
    assert caught.value.message.isprintable()
    return caught.value.code


@pytest.mark.parametrize(
    "name",
    ["abcd", "a" * 64, "_ab_", "1234", "a.b-c_d", "a..b", "____", "from-templat", "From-template"],
)
def test_session_names(name: str) -> None:
    assert rules.check_session_name(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "too_short"),
        ("ab", "too_short"),
        ("abc", "too_short"),
        ("a" * 65, "too_long"),
        ("-abc", "bad_start"),
        (".abc", "bad_start"),
        (" abcd", "bad_start"),
        ("äbcd", "bad_start"),
        ("abc-", "bad_end"),
        ("abc.", "bad_end"),
        ("abcd\n", "bad_end"),
        ("abcé", "bad_end"),
        ("ab cd", "bad_character"),
        ("ab/cd", "bad_character"),
        ("ab:cd", "bad_character"),
        ("abçd", "bad_character"),
        ("ab\x00cd", "bad_character"),
        ("ab\ud800cd", "bad_character"),
        ("a٣cd", "bad_character"),
        ("from-template", "reserved"),
    ],
)
def test_no_session_names(name: str, why: str) -> None:
    assert code(rules.check_session_name, name) == why


@given(st.text(max_size=70))
def test_a_session_name_is_what_the_rule_says(name: str) -> None:
    legal = re.fullmatch(r"(?=.{4,64}\Z)\w[\w.-]*\w", name, re.ASCII | re.DOTALL)
    if legal and name != "from-template":
        assert rules.check_session_name(name) == name
    else:
        code(rules.check_session_name, name)


@pytest.mark.parametrize(
    "name",
    [
        "MY_VAR", "a", "_X", "PATH", "PYTHONPATH", "OMP_NUM_THREADS", "LD_LIBRARY_PATH",
        "http_proxy", "CUDA_HOME", "CUDA_LAUNCH_BLOCKING", "JUPYTER_PORT_X", "HOMEPAGE", "USERS",
        "A" * 128, "NPROC", "TF_CPP_MIN_LOG_LEVEL", "N_GPUS_WANTED", "TOKEN",
    ],
)  # fmt: skip
def test_variables(name: str) -> None:
    assert rules.check_env_name(name) == name


RESERVED = [
    "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_", "JPY_API_TOKEN", "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES", "BACKENDAI_SESSION_ID", "FGPU_SHARES", "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT",
    "CUDA_GLOBAL_DEVICE_IDS", "CUDA_MEMORY_LIMITS", "NB_USER", "NB_UID", "HOME", "HOSTNAME", "USER",
    "LD_PRELOAD", "LD_AUDIT", "MEM_LIMIT", "MEM_GUARANTEE", "CPU_LIMIT", "CPU_GUARANTEE",
    "GRANT_SUDO", "SUDO_SESSION_ENABLED", "CHOWN_HOME", "CHOWN_EXTRA", "JUPYTER_IMAGE",
    "JUPYTER_IMAGE_SPEC", "JUPYTER_RUNTIME_DIR", "LOCAL_USER_ID", "LOCAL_GROUP_ID",
    "ADDITIONAL_GIDS", "GPU_COUNT", "GPU_TYPE", "N_GPUS", "TF_MIN_GPU_MULTIPROCESSOR_COUNT",
    "__class__", "__b64__",
]  # fmt: skip


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_variables(name: str) -> None:
    for variant in (name, name.lower(), name.title()):
        assert code(rules.check_env_name, variant) == "reserved"
        assert rules.is_reserved_env(variant)


@pytest.mark.parametrize(
    "name",
    ["", "1A", "A-B", "A B", "A=B", "Ä", "A\n", "A\x00", "A.B", "${A}", "{A}", "A" * 129, "ａ"],
)
def test_no_variables(name: str) -> None:
    assert code(rules.check_env_name, name) == "bad_name"


DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu", "jupyter/base-notebook", "quay.io/jupyter/pytorch-notebook:cuda12-2.9",
        "localhost:5000/a/b:1", "a.b-c.example.org/x__y/z-1:V1.0_x", f"ubuntu@{DIGEST}",
        f"registry:5000/team/app:tag@{DIGEST}", "deadbeef",
    ],
)  # fmt: skip
def test_images(image: str) -> None:
    assert rules.check_image(image) == image


@pytest.mark.parametrize(
    "image",
    [
        "", " ", "Ubuntu", "a/B:1", "a//b", "/a", "a/", "a:", ":a", "a:b:c", "a b", "a@sha256:12",
        "http://a/b", "-a", "a/-b", "a;rm -rf", "$(a)", "../a", "a/../b", "a" * 256, "a\n", "é",
        "sha256:0123abcd", "0123456789abcdef" * 4, DIGEST, "{username}", "a:{x}",
    ],
)  # fmt: skip
def test_no_images(image: str) -> None:
    assert code(rules.check_image, image) == "bad_image"


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("ubuntu", "ubuntu:latest"),
        ("deadbeef", "deadbeef:latest"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
        ("a/b:1", "a/b:1"),
        (f"a/b@{DIGEST}", f"a/b@{DIGEST}"),
    ],
)
def test_an_image_by_hand_has_a_tag_and_so_is_no_id(image: str, full: str) -> None:
    assert rules.with_tag(image) == full


@pytest.mark.parametrize(
    ("token", "ports"),
    [
        (1024, [1024]),
        (65535, [65535]),
        ("8080", [8080]),
        (" 8080 ", [8080]),
        ("8000:8002", [8000, 8001, 8002]),
        ("8000:8000", [8000]),
        ("10000:10999", list(range(10000, 11000))),
    ],
)
def test_ports(token: object, ports: list[int]) -> None:
    assert rules.expand_ports(token) == ports


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (1023, "out_of_range"),
        ("1023", "out_of_range"),
        (0, "out_of_range"),
        (-8080, "out_of_range"),
        (65536, "out_of_range"),
        ("65536", "out_of_range"),
        ("65535:65536", "out_of_range"),
        pytest.param(10**5000, "out_of_range", id="huge"),
        pytest.param(-(10**5000), "out_of_range", id="-huge"),
        (2000, "reserved"),
        (2001, "reserved"),
        (2200, "reserved"),
        (7681, "reserved"),
        (8888, "reserved"),
        ("1999:2002", "reserved"),
        ("8002:8000", "bad_range"),
        ("10000:11000", "bad_range"),
        ("8000-8002", "bad_port"),
        ("8000:", "bad_port"),
        ("http", "bad_port"),
        ("", "bad_port"),
        ("８０８０", "bad_port"),
        ("8080\x00", "bad_port"),
        ("1234567", "bad_port"),
        (True, "bad_port"),
        (8080.0, "bad_port"),
        (None, "bad_port"),
        ([8080], "bad_port"),
        ({"port": 8080}, "bad_port"),
    ],
)
def test_no_ports(token: object, why: str) -> None:
    assert code(rules.expand_ports, token) == why


def test_reserved_ports_say_what_uses_them() -> None:
    with pytest.raises(Problem, match="Port 7681 is used by the terminal"):
        rules.expand_ports(7681)
    assert set({p for p, _, _ in rules.closed_ports()[1:-1]}) == {2000, 2001, 2200, 7681, 8888}


@pytest.mark.parametrize(
    "name", ["a", "A.b-c_1", "data", ".config", ".local", ".linuxbrew", "..a", "a" * 64, "1"]
)
def test_folder_names(name: str) -> None:
    assert rules.check_folder_name(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "bad_name"),
        (".", "bad_name"),
        ("..", "bad_name"),
        ("a/b", "bad_name"),
        ("/a", "bad_name"),
        ("a\\b", "bad_name"),
        ("-a", "bad_name"),
        ("a b", "bad_name"),
        ("a" * 65, "bad_name"),
        ("dätä", "bad_name"),
        ("a\x00", "bad_name"),
        ("a\n", "bad_name"),
        (".ssh", "reserved"),
        (".jupyter", "reserved"),
        (".terminfo", "reserved"),
        (".tmux.conf", "reserved"),
        (".backendai", "reserved"),
        (".bashrc", "reserved"),
        (".zshrc", "reserved"),
        (".bash_profile", "reserved"),
        ("id_container", "reserved"),
        (rules.MARKER, "reserved"),
    ],
)
def test_no_folder_names(name: str, why: str) -> None:
    assert code(rules.check_folder_name, name) == why


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("data", "/home/work/data"),
        ("a/b/c", "/home/work/a/b/c"),
        ("a//b/", "/home/work/a/b"),
        ("/home/work/x", "/home/work/x"),
        ("/data", "/data"),
        ("//data//set", "/data/set"),
        ("/workspace/x", "/workspace/x"),
        (".cache", "/home/work/.cache"),
        ("a...b", "/home/work/a...b"),
    ],
)
def test_where_a_folder_appears(path: str, target: str) -> None:
    assert rules.mount_target(path) == target


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "bad_path"),
        (".", "bad_path"),
        ("..", "bad_path"),
        ("../x", "bad_path"),
        ("a/../../etc", "bad_path"),
        ("a/./b", "bad_path"),
        ("/home/work/../../etc", "bad_path"),
        ("a b", "bad_path"),
        ("a\n", "bad_path"),
        ("~", "bad_path"),
        ("$HOME", "bad_path"),
        ("{username}", "bad_path"),
        ("a:ro", "bad_path"),
        ("ä", "bad_path"),
        ("a\x00b", "bad_path"),
        ("a" * 256, "bad_path"),
        ("/", "reserved"),
        ("//", "reserved"),
        ("/home/work", "reserved"),
        ("/home/work/", "reserved"),
        ("/home", "reserved"),
        ("/home/other", "reserved"),
        ("/home/workx", "reserved"),
        ("/etc/passwd", "reserved"),
        ("//etc", "reserved"),
        ("///etc", "reserved"),
        ("/opt/backendai", "reserved"),
        ("/usr/local/x", "reserved"),
        ("/proc/1", "reserved"),
        ("/.dockerenv", "reserved"),
        (".ssh", "reserved"),
        (".ssh/keys", "reserved"),
        (".backendai/ssh", "reserved"),
        ("/home/work/.jupyter/x", "reserved"),
        (".bashrc", "reserved"),
        (".bash_profile", "reserved"),
        (rules.MARKER, "reserved"),
    ],
)
def test_where_no_folder_can_appear(path: str, why: str) -> None:
    assert code(rules.mount_target, path) == why


@given(st.text(alphabet="ab/._-", max_size=30))
def test_a_place_is_absolute_plain_and_never_the_system(path: str) -> None:
    try:
        target = rules.mount_target(path)
    except Problem:
        return
    assert target == posixpath.normpath(target)
    assert re.fullmatch(r"(/[A-Za-z0-9_.-]+)+", target)
    assert ".." not in target.split("/")
    assert target != rules.HOME
    assert not rules.HOME.startswith(target + "/")


def test_a_folder_is_under_its_own_name_unless_it_has_a_place() -> None:
    assert rules.default_target("data") == "/home/work/data"
    assert rules.default_target("team/data") == "/home/work/data"
    assert rules.default_target(".config") == "/home/work/.config"
    assert rules.default_target(".linuxbrew") == "/home/linuxbrew/.linuxbrew"
    assert rules.default_target("team/.linuxbrew") == "/home/work/.linuxbrew"


targets = st.lists(
    st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map(lambda s: "/" + "/".join(s)),
    max_size=6,
)


@given(targets)
def test_overlaps_are_found_wherever_they_are(paths: list[str]) -> None:
    clashes = rules.overlapping(paths)
    for index, path in enumerate(paths):
        expected = path in paths[:index] or any(path.startswith(f"{p}/") for p in paths)
        assert (index in clashes) == expected


@given(st.text() | st.sampled_from(["\x00", "a\x00b", "\ud800", "\U0001f600", "\udfff!"]))
def test_text_is_what_can_be_stored(text: str) -> None:
    storable = "\x00" not in text and not re.search("[\ud800-\udfff]", text)
    if storable:
        assert rules.check_text(text) == text
    else:
        assert code(rules.check_text, text) == "bad_text"


@pytest.mark.parametrize(
    ("title", "why"),
    [
        ("", "blank"), ("  \t\n", "blank"), ("\u3000", "blank"), ("a\nb", "bad_character"),
        ("\u202eevil", "bad_character"), ("a\u200bb", "bad_character"),
        ("a\x1b[1m", "bad_character"),
        ("a\x00", "bad_text"), ("\ud800", "bad_text"),
    ],
)  # fmt: skip
def test_titles_can_be_read(title: str, why: str) -> None:
    assert code(rules.check_title, title) == why
    assert rules.check_title("Größe 5 \U0001f44b, x/y") == "Größe 5 \U0001f44b, x/y"
