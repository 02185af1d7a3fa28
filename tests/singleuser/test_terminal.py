"""The terminal's shells and sockets on a real Jupyter server, with tmux and without."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from tests.hub.harness import wait_for

from .jupyter import KINDS, TOKEN, Server, running
from .window import Window, attach


@pytest.fixture(scope="module", params=KINDS)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("jupyter"), request.param) as started:
        yield started


@pytest.fixture
def kind(server: Server) -> str:
    return server.ask("GET", "terminal/shells")[1]["kind"]


@pytest.fixture
async def shell(server: Server) -> AsyncIterator[str]:
    """A shell of this test alone; it may end it."""
    status, made = server.ask("POST", "terminal/shells")
    assert status == 201, made
    yield made["shell"]
    server.ask("DELETE", f"terminal/shells/{made['shell']}?force=1")


@pytest.fixture
async def look(server: Server, shell: str) -> AsyncIterator[Any]:
    """Opens windows on the shell."""
    opened: list[Window] = []

    async def look(**how: Any) -> Window:
        opened.append(await attach(server, shell, **how))
        return opened[-1]

    yield look
    for window in opened:
        await window.close()


async def test_a_command_and_what_it_writes_are_there_again(look: Any) -> None:
    first = await look()
    await first.run("echo an$((40 + 2))swer", "an42swer")
    await first.close()
    second = await look()
    await second.sees("an42swer")


async def test_two_windows_see_the_same(look: Any) -> None:
    first, second = await look(), await look()
    await first.run("echo on$((1))e", "on1e")
    await second.sees("on1e")
    await second.run("echo tw$((2))o", "tw2o")
    await first.sees("tw2o")


async def test_the_size_is_the_windows(look: Any, kind: str) -> None:
    first = await look(rows=30, columns=100)
    line = 1 if kind == "tmux" else 0  # its status line
    await first.run(until_size(30 - line, 100), "size-30-")
    first.send("set_size", 20, 90)
    await first.run(until_size(20 - line, 90), "size-20-")


def until_size(rows: int, columns: int) -> str:
    """Waits for a size, as tmux gathers changes of it for a moment, and says so."""
    look = f'until [ "$(stty size)" = "{rows} {columns}" ]; do :; done'
    return f"{look}; echo size-$((({rows} + 1) / 10 * 10))-"


async def test_a_shell_has_the_images_path_and_a_good_terminal(look: Any, server: Server) -> None:
    window = await look(columns=200)
    await window.run('[ "$PATH" = "$(tr "\\0" "\\n" < /proc/$PPID/environ | sed -n s/^PATH=//p)" ] '
                     "&& echo same-$((1))", "same-1")  # fmt: skip
    await window.run('echo "$MARK"="$COLORTERM"="$(locale charmap)"', "image=truecolor=UTF-8")
    await window.run("echo $(tput colors)=colours", "256=colours")
    # The window before may go only now, and bash looks again after a program that is not its own.
    await window.run(
        "until stty size | grep -q ' 200$'; do sleep 0.1; done; echo wi$((1))de", "wi1de"
    )
    await window.run('echo "[$COLUMNS$PYXTERM_DIMENSIONS$BACKENDAI_TMUX_CONF]"', "[200]")
    await window.run("pwd | sed s/$/=/", f"{server.home}=")


async def test_what_people_write_goes_through(look: Any) -> None:
    window = await look()
    await window.run("echo 'é世界🎉' | tr -d x; echo e$((1))nd", "e1nd")
    assert window.text.count("é世界🎉") >= 2  # once more where it was typed before the prompt
    window.type("echo \ud800lone\r")  # half a character is no reason to close
    await window.run("echo ali$((1))ve", "ali1ve")


async def test_messages_that_are_none_are_left_aside(look: Any) -> None:
    window = await look()
    messages = ["", "{}", "[]", "7", '"stdin"', '["stdin"]', '["stdin", 3]', "[[], 1]"]
    messages += ['["set_size", "a", null]', '["set_size", 1e999, -4]', '["drawn", "x"]']
    for message in messages:
        window.socket.write_message(message)
    window.socket.write_message(b"\xff", binary=True)
    window.send("set_size", 24, 80)
    await window.run("echo ali$((1))ve", "ali1ve")


async def test_a_window_that_draws_slowly_holds_up_nothing(
    look: Any, server: Server, shell: str, kind: str
) -> None:
    slow = await look(slow=True)
    slow.type("seq 1 3000000 | sed s/^/line-/; echo > do$((1))ne\r")
    wait_for("the program's end", (server.home / "do1ne").exists)
    assert len(slow.text) < 2_000_000
    slow.send("drawn", len(slow.text))
    slow.slow = False
    await slow.sees("line-3000000")
    (server.home / "do1ne").unlink()
    await (await look()).sees("line-3000000")


async def test_exit_ends_a_shell_and_says_so(look: Any, server: Server, shell: str) -> None:
    window = await look()
    window.type("exit\r")
    await window.until(lambda: window.closed, "closed")
    assert window.kinds[-1] == "disconnect"
    assert shell not in server.ask("GET", "terminal/shells")[1]["shells"]


async def test_a_shell_that_runs_something_is_not_closed_by_the_way(
    look: Any, server: Server, shell: str
) -> None:
    window = await look()
    window.type("sleep 1234\r")
    path = f"terminal/shells/{shell}"
    answer = wait_for("sleep", lambda: _running(server, path))
    assert answer["errors"][0]["message"] == "sleep 1234"
    assert server.ask("DELETE", f"{path}?force=1")[0] == 204
    await window.until(lambda: window.closed, "closed")
    assert server.ask("DELETE", path)[0] == 404
    assert _sleeps("1234") == []


def _running(server: Server, path: str) -> Any:
    """Its refusal, once the program runs; a shell that still waits would be closed."""
    if not _sleeps("1234"):
        return None
    status, answer = server.ask("DELETE", path)
    return answer if status == 409 else None


def _sleeps(seconds: str) -> list[str]:
    lines = [f.read_bytes() for f in Path("/proc").glob("[0-9]*/cmdline") if f.exists()]
    return [line.decode() for line in lines if line == f"sleep\0{seconds}\0".encode()]


def test_there_is_an_end_to_shells(server: Server) -> None:
    while (answer := server.ask("POST", "terminal/shells"))[0] == 201:
        assert len(server.ask("GET", "terminal/shells")[1]["shells"]) <= 20
    assert answer[0] == 409
    assert "Close one first" in answer[1]["errors"][0]["message"]
    for name in server.ask("GET", "terminal/shells")[1]["shells"]:
        assert server.ask("DELETE", f"terminal/shells/{name}?force=1")[0] == 204


async def test_what_is_typed_is_activity(look: Any, server: Server) -> None:
    window = await look()
    before = _last_activity(server)
    await window.run("echo he$((1))re", "he1re")
    wait_for("a later time", lambda: _last_activity(server) > before)


def _last_activity(server: Server) -> str:
    path = "/user/ada/api/status?no_track_activity=1"
    return server.ask("GET", path)[1]["last_activity"]


# ---- who may


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "shells"), ("POST", "shells"), ("DELETE", "shells/shell-1")],
)
def test_nobody_who_is_not_signed_in(server: Server, method: str, path: str) -> None:
    status, answer = server.ask(method, f"terminal/{path}", Authorization="token wrong")
    assert status == 403
    assert answer["errors"][0]["code"] in ("sign_in", "forbidden")


def test_a_browser_is_sent_to_the_sign_in(server: Server) -> None:
    status, answer = server.ask("GET", "terminal/", Authorization="token wrong", Accept="text/html")
    assert status == 200
    assert 'action="/user/ada/login?next=%2Fuser%2Fada%2Fbackendai%2Fterminal%2F' in answer


async def test_a_socket_needs_the_sign_in_and_the_origin(server: Server, shell: str) -> None:
    cookie = _cookies(server)
    good = f"http://127.0.0.1:{server.port}"
    for headers in (
        {"Authorization": "token wrong"},
        {"Cookie": cookie, "Origin": "http://evil.example"},
        {"Cookie": cookie, "Origin": "null"},
    ):
        with pytest.raises(HTTPClientError) as refused:
            await attach(server, shell, **headers)
        assert refused.value.code in (302, 403)
    window = await attach(server, shell, Cookie=cookie, Origin=good)
    await window.close()


def _cookies(server: Server) -> str:
    with urllib.request.urlopen(f"{server.url}terminal/?token={TOKEN}") as response:
        said = response.headers.get_all("Set-Cookie")
    return "; ".join(each.partition(";")[0] for each in said)


def test_another_site_makes_no_shell(server: Server) -> None:
    request = urllib.request.Request(
        f"{server.url}terminal/shells", method="POST", headers={"Cookie": _cookies(server)}
    )
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request)


async def test_no_socket_where_there_is_no_shell(server: Server) -> None:
    for name in ("shell-99", "=", "a:b", "-d", "$0", "ü"):
        with pytest.raises(HTTPClientError, match="404"):
            await attach(server, name)


def test_the_page_runs_scripts_from_files_only(server: Server) -> None:
    request = urllib.request.Request(
        f"{server.url}terminal/", headers={"Authorization": f"token {TOKEN}"}
    )
    with urllib.request.urlopen(request) as response:
        policy = response.headers["Content-Security-Policy"]
        page = response.read().decode()
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search(r"<script>|\son[a-z]+=|javascript:", page)


def test_what_the_page_needs_is_little(server: Server) -> None:
    import jupyterhub_backendai.singleuser.server as package

    static = Path(package.__file__).parent / "static"
    files = [f for name in ("terminal", "vendor") for f in (static / name).iterdir()]
    assert sum(file.stat().st_size for file in files) < 450_000
