"""What the extension of a session's server does: who may call, apps, pages, loading."""

from __future__ import annotations

import logging
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from jupyterhub_backendai.singleuser.server import declared
from jupyterhub_backendai.singleuser.server import known as known_apps

from .session_server import BASE, DEMO, KEY, MODULE, TOKEN, Server, children, free_port, wait_for

SLOW = "import os, sys, time\nprint('loading <weights>', flush=True)\n" + (
    "while not os.path.exists('go'): time.sleep(.02)\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'http.server', sys.argv[1],"
    " '--bind', '127.0.0.1'])"
)
NEVER = "print('no such <model>', flush=True); raise SystemExit(3)"


def app(name: str, *command: str, **more: Any) -> dict:
    return {"name": name, "ports": [free_port()], "command": list(command), **more}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("server")
    demo = (sys.executable, DEMO, "{port}")
    said = {
        "preopen_ports": [free_port(), "8080"],
        "apps": [
            app("demo", *demo, title="Demo <b>&", icon="flask", category="ML tools",
                path="start?a=1", shareable=True),
            app("private", *demo),
            app("vscode", *demo, shareable=True),
            app("slow", sys.executable, "-c", SLOW, "{port}"),
            app("dies", sys.executable, "-c", NEVER, title="Dies"),
            app("absent", "no-such-program", "{port}"),
            app("raw", protocol="tcp"),
            {"name": "../etc", "ports": [1]}, "nonsense", {"name": "noport"},
        ],
    }  # fmt: skip
    made = Server(root, said).start()
    yield made
    made.stop()


# ---- who may call

ROUTES = [
    # path, method, signed in, with the key
    ("apps", "GET", 200, 200),
    ("open/demo", "GET", 200, 403),
    ("open/absent", "POST", 303, 200),
    ("app/private/", "GET", 503, 403),
    ("app/private/", "POST", 503, 403),
    ("app/nobody/", "GET", 404, 403),
    ("tunnel/demo", "GET", 403, 426),
    ("static/pages.css", "GET", 200, 403),
    ("static/../access.py", "GET", 403, 403),
    ("static/%2e%2e/access.py", "GET", 403, 403),
    ("static/..%2faccess.py", "GET", 403, 403),
    ("static//etc/passwd", "GET", 403, 403),
]


@pytest.mark.parametrize(("path", "method", "signed_in", "with_key"), ROUTES)
def test_who_may_call(
    server: Server, path: str, method: str, signed_in: int, with_key: int
) -> None:
    def status(**headers: str) -> int:
        request = requests.Request(method, server.url("x"), headers=headers).prepare()
        request.url = server.url(path)  # as it is, with its dots
        with requests.Session() as session:
            return session.send(request, timeout=60, allow_redirects=False).status_code

    assert status() in (403, 404)
    assert status(**{"X-Backendai-Key": KEY[:-1]}) in (403, 404)
    assert status(**{"X-Backendai-Key": ""}) in (403, 404)
    assert status(Authorization="token wrong") in (403, 404)
    assert status(Authorization="token " + "the-token-of-the-server") == signed_in
    assert status(**{"X-Backendai-Key": KEY}) == with_key
    # a browser is led to the sign-in
    if method == "GET" and signed_in == 200:
        assert status(Accept="text/html") == 302


def test_without_a_key_in_the_file_none_opens(tmp_path: Path) -> None:
    made = Server(tmp_path / "s", {"key_sha256": ""}).start()
    try:
        assert made.by_key("apps").status_code == 403
        assert made.ask("apps").status_code == 200
    finally:
        made.stop()


def test_forms_need_the_token_against_other_sites(server: Server) -> None:
    browser = server.browser()
    where = server.url("open/absent")
    scripts = {"Accept": "application/json"}
    refused = browser.post(where, headers=scripts, timeout=60)
    assert refused.status_code == 403
    assert "'_xsrf' argument missing" in refused.json()["errors"][0]["message"]
    late = browser.post(where, timeout=60, allow_redirects=False)
    assert (late.status_code, late.headers["Location"]) == (303, f"{BASE}backendai/open/absent")
    form = {"_xsrf": browser.cookies["_xsrf"]}
    assert browser.post(where, data=form, timeout=60, allow_redirects=False).status_code == 303
    # nothing else became laxer by it
    root = f"http://127.0.0.1:{server.port}{BASE}"
    assert browser.post(root + "api/contents", timeout=60).status_code == 403
    headers = {"X-Backendai-Key": KEY}
    assert requests.get(root + "api/contents", headers=headers, timeout=60).status_code == 403


# ---- what there is


def test_apps(server: Server) -> None:
    items = server.by_key("apps").json()["apps"]
    assert items == server.ask("apps").json()["apps"]
    names = [item["name"] for item in items]
    port = server.said["preopen_ports"][0]
    assert {"terminal", "tensorboard", "sshd", "demo", "raw", str(port)} <= set(names)
    assert not {"../etc", "noport", "8080"} & set(names)
    assert names[-1 - len(["absent", "dies", "private", "raw", "slow"])] == str(port)
    demo = server.item("demo")
    assert {name: demo[name] for name in ("title", "category", "icon", "shareable", "asks")} == {
        "title": "Demo <b>&", "category": "ML tools", "icon": "flask", "shareable": True,
        "asks": [],
    }  # fmt: skip
    assert demo["path"] == "backendai/open/demo"
    assert not server.item("vscode")["shareable"], "whatever is declared"
    assert server.item("raw")["path"] == ""
    absent = server.item("absent")
    assert not absent["available"]
    assert "no-such-program is not installed" in absent["why"]
    tensorboard = server.item("tensorboard")
    assert "pip install tensorboard" in tensorboard["why"]
    assert tensorboard["asks"][0]["value"] == str(server.home / "logs")
    log = server.log
    assert log.count("is left out") >= 4
    assert "Traceback" not in log


# ---- starting them


def test_first_use_starts_it_once(server: Server) -> None:
    assert not server.item("demo")["running"]
    before = children(server.process.pid)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: server.by_key("open/demo", "POST").json(), range(8)))
    assert found == [{"ready": True, "why": ""}] * 8
    assert len(children(server.process.pid) - before) == 1
    item = server.item("demo")
    assert item["running"]
    assert item["listening"]
    opened = server.browser().get(server.url("open/demo"), timeout=60, allow_redirects=False)
    assert opened.status_code == 302
    assert opened.headers["Location"] == f"{BASE}backendai/app/demo/start?a=1"


def test_what_dies_at_its_start_says_why(server: Server) -> None:
    answer = server.by_key("open/dies", "POST").json()
    assert not answer["ready"]
    assert "exit code 3" in answer["why"]
    assert "no such <model>" in answer["why"]
    page = server.browser().get(server.url("open/dies"), timeout=60)
    assert "Dies did not start" in page.text
    assert "no such &lt;model&gt;" in page.text
    assert "no such <model>" not in page.text
    assert "Try again" in page.text
    assert server.ask("open/dies").json()["state"] == "failed"


def test_a_slow_one_has_a_page_that_goes_on(server: Server) -> None:
    page = server.browser().get(server.url("app/slow/some/page"), timeout=60)
    assert page.status_code == 503
    assert "slow is starting" in page.text
    assert f'data-goal="{BASE}backendai/app/slow/some/page"' in page.text
    assert "loading &lt;weights&gt;" in page.text
    how = server.ask("open/slow").json()
    assert (how["ready"], how["state"]) == (False, "starting")
    (server.home / "go").touch()
    wait_for(lambda: server.ask("open/slow").json()["ready"])
    assert server.ask("app/slow/go").status_code == 200


def test_a_port_that_nothing_answers_on(server: Server) -> None:
    port = server.said["preopen_ports"][0]
    browser = server.browser()
    for path in (f"open/{port}", f"app/{port}/"):
        page = browser.get(server.url(path), timeout=60)
        assert f"Nothing answers on port {port} yet" in page.text
        assert f"python -m http.server {port} --bind 127.0.0.1 --directory to-show" in page.text
        assert "other sessions can reach it without signing in" in page.text
        policy = page.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "script-src 'self'" in policy
        assert not re.search(r"<script>|\son\w+=|style=", page.text)
    script = re.search(r'src="([^"]+open\.js)"', page.text)[1]
    script_url = f"http://127.0.0.1:{server.port}{script}"
    assert "fetch" in browser.get(script_url, timeout=60).text
    assert browser.get(script_url, timeout=60).headers["Cache-Control"] == "no-cache"
    error = server.ask(f"app/{port}/")
    assert error.status_code == 503
    assert error.json()["errors"][0]["code"] == "not_answering"
    assert server.by_key(f"open/{port}", "POST").json()["ready"] is False
    # what the user starts there is used
    with socket.create_server(("127.0.0.1", port)):
        assert server.ask(f"open/{port}").json()["ready"]
        assert server.item(str(port))["listening"]


def test_a_taken_port_is_left_to_its_owner(tmp_path: Path) -> None:
    program = "import runpy; runpy.run_module('http.server', run_name='__main__')"
    program = "del sys.argv[2:]; " + program
    made = Server(tmp_path / "s")
    stand_in(made, "mlflow", program)
    with socket.socket() as taken:
        try:
            taken.bind(("127.0.0.1", 5000))
        except OSError:
            pytest.skip("somebody else has port 5000")
        taken.listen()
        made.start()
        try:
            assert made.by_key("open/mlflow", "POST").json() == {"ready": True, "why": ""}
            assert made.item("mlflow")["port"] != 5000
            assert made.ask("app/mlflow/").status_code == 200
        finally:
            made.stop()


def stand_in(server: Server, name: str, code: str) -> None:
    """A program of that name, with the port after `--port`."""
    words = "sys.argv[1:] = [sys.argv[sys.argv.index('--port') + 1], *sys.argv[1:]]"
    path = server.bin / name
    path.write_text(f"#!{sys.executable}\nimport sys\n{words}\n{code}\n")
    path.chmod(0o755)


def test_processes_end_with_the_server(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; subprocess.Popen(['sleep', '1000']);"
        "from http.server import test; test(port=int(sys.argv[1]))"
    )
    said = {"apps": [app("family", sys.executable, "-c", code, "{port}")]}
    made = Server(tmp_path / "s", said).start()
    assert made.by_key("open/family", "POST").json()["ready"]
    started = children(made.process.pid)
    assert len(started) >= 2
    made.stop()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
    assert not list(made.root.glob("backendai-*")), "its runtime folder is gone too"
    assert "Traceback" not in made.log


LEAVES = """
import http.server, os, sys, threading, time
server = http.server.ThreadingHTTPServer(
    ('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
while not os.path.exists('leave'): time.sleep(.02)
server.shutdown(); server.server_close()
threading.Event().wait()
"""


def test_what_runs_and_answers_no_more_can_be_started_again(tmp_path: Path) -> None:
    said = {"apps": [app("leaves", sys.executable, "-c", LEAVES, "{port}", title="Leaves")]}
    made = Server(tmp_path / "s", said).start()
    try:
        browser = made.browser()
        assert made.by_key("open/leaves", "POST").json()["ready"]
        first = children(made.process.pid)
        (made.home / "leave").touch()
        wait_for(lambda: not made.item("leaves")["listening"])
        assert made.item("leaves")["running"]
        (made.home / "leave").unlink()
        for path in ("open/leaves", "app/leaves/"):
            page = browser.get(made.url(path), timeout=60)
            assert "Leaves does not answer" in page.text
            assert "does not answer on its port" in page.text
            assert children(made.process.pid) == first, "a visit ends nothing"
            assert f'href="{BASE}backendai/open/leaves?again=1">Restart<' in page.text
        restarted = browser.get(made.url("open/leaves?again=1"), timeout=60)
        assert restarted.status_code == 200
        wait_for(lambda: made.ask("open/leaves").json()["ready"])
        second = children(made.process.pid)
        assert not first & second
        (made.home / "leave").touch()
        wait_for(lambda: not made.item("leaves")["listening"])
        (made.home / "leave").unlink()
        assert made.by_key("open/leaves", "POST").json() == {"ready": True, "why": ""}
        assert not second & children(made.process.pid)
    finally:
        made.stop()


def test_what_a_process_left_behind_ends_with_the_server(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '1000']).pid, flush=True);"
        "open('pid', 'w').write('x'); sys.exit(3)"
    )
    said = {"apps": [app("leaves", sys.executable, "-c", code, "{port}")]}
    made = Server(tmp_path / "s", said).start()
    try:
        failed = made.by_key("open/leaves", "POST").json()
        assert "exit code 3" in failed["why"]
        pid = int(failed["why"].split()[-1])
        assert Path(f"/proc/{pid}").exists()
    finally:
        made.stop()
    wait_for(lambda: _is_over(pid))


def _is_over(pid: int) -> bool:
    """Gone, or dead and not yet buried by whoever has it now."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_without_a_place_for_files_it_says_so(tmp_path: Path) -> None:
    said = {"apps": [app("demo", sys.executable, DEMO, "{port}")]}
    made = Server(tmp_path / "s", said)
    (made.root / "sitecustomize.py").write_text(
        "import tempfile\ndef none(*_, **__): raise FileNotFoundError(2, 'No temporary folder')\n"
        "tempfile.mkdtemp = none\n"
    )
    made.environment["PYTHONPATH"] = f"{made.root}:{Path.cwd()}"
    made.start()
    try:
        answer = made.by_key("open/demo", "POST")
        assert answer.status_code == 200
        assert "cannot be started" in answer.json()["why"]
        page = made.browser().get(made.url("open/demo"), timeout=60)
        assert page.status_code == 200
        assert "No temporary folder" in page.text
        assert "Traceback" not in made.log
    finally:
        made.stop()


# ---- TensorBoard

BOARD = """
import http.server, sys
logdir = sys.argv[sys.argv.index('--logdir') + 1]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(logdir.encode())
assert sys.argv[sys.argv.index('--host') + 1] == '127.0.0.1'
http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
"""


def test_tensorboard(tmp_path: Path) -> None:
    made = Server(tmp_path / "s").start()
    try:
        browser = made.browser()
        opened = browser.get(made.url("open/tensorboard"), timeout=60)
        assert "pip install tensorboard" in opened.text
        stand_in(made, "tensorboard", BOARD)  # pip install
        asks = browser.get(made.url("open/tensorboard"), timeout=60)
        assert f'value="{made.home}/logs"' in asks.text
        assert made.item("tensorboard")["available"]
        xsrf = re.search(r'name="_xsrf" value="([^"]+)"', asks.text)[1]

        def send(logdir: str) -> requests.Response:
            form = {"logdir": logdir, "_xsrf": xsrf}
            return browser.post(made.url("open/tensorboard"), data=form, timeout=60)

        (made.home / "file").touch()
        for wrong, why in (
            ("", "Give the path"),
            ("/no/such/<dir>", "There is no directory /no/such/&lt;dir&gt;."),
            ("file", "is a file"),
            ("s3://bucket/logs", "Copy the logs into one first"),
            ("gs://x", "Copy the logs into one first"),
            ("~nobody-here/logs", "There is no user nobody-here."),
            ("~/../../etc/x", "There is no directory"),
        ):
            before = sorted(made.home.iterdir())
            refused = send(wrong)
            assert refused.status_code == 400
            assert why in refused.text
            assert 'role="alert"' in refused.text
            assert sorted(made.home.iterdir()) == before, "nothing was made"
        assert send("runs/a b; touch x").status_code in (200, 503)
        assert (made.home / "runs/a b; touch x").is_dir()
        wait_for(lambda: made.ask("open/tensorboard").json()["ready"])
        shown = made.ask("app/tensorboard/")
        assert shown.text == f"{made.home}/runs/a b; touch x"
        # a visit goes on to it; `again` asks
        visit = browser.get(made.url("open/tensorboard"), timeout=60, allow_redirects=False)
        assert visit.headers["Location"].endswith("/backendai/app/tensorboard/")
        again = browser.get(made.url("open/tensorboard?again=1"), timeout=60)
        assert "Start again" in again.text
        # the service
        body = {"arguments": {"logdir": str(made.home / "other")}}
        started = made.by_key("open/tensorboard", "POST", json=body).json()
        assert started == {"ready": True, "why": ""}
        assert made.ask("app/tensorboard/").text == f"{made.home}/other"
        for wrong_body, field in (
            ({"arguments": {"logdir": "/no/such"}}, "arguments.logdir"),
            ({"arguments": {"logdir": 3}}, "arguments.logdir"),
            ({"arguments": {"port": 3}}, "arguments.port"),
            ({"arguments": []}, "arguments"),
            ([], "arguments"),
        ):
            answer = made.by_key("open/tensorboard", "POST", json=wrong_body)
            assert answer.status_code == 400
            assert answer.json()["errors"][0]["field"] == field
        assert made.ask("app/tensorboard/").text == f"{made.home}/other"
        assert "Traceback" not in made.log
    finally:
        made.stop()


# ---- loading

NOTHING = declared.Declared()
WRONG = [
    ("", NOTHING),
    ("{", NOTHING),
    ("[]", NOTHING),
    ("null", NOTHING),
    ('{"apps": 3, "preopen_ports": {"a": 1}, "key_sha256": "x", "ssh_port": "22"}', NOTHING),
    ('{"apps": [{"name": "a", "ports": [99999]}, {"name": "b", "ports": [80], "command": "ls"},'
     ' {"name": "c", "ports": []}, {"name": "d\\n", "ports": [80]}, {"name": 3, "ports": [80]},'
     ' {"name": "e", "ports": [80], "protocol": "udp"}, null]}', NOTHING),
    ('{"preopen_ports": [8080, "x", true, 0, 8080, 70000]}',
     NOTHING._replace(preopen_ports=(8080,))),
    ('{"apps": [{"name": "a", "ports": [80], "icon": "<b>", "title": 3, "path": "//x",'
     ' "shareable": "yes"}, {"name": "a", "ports": [81]}]}',
     NOTHING._replace(apps=(declared.App("a", ports=(80,), path="x"),))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), WRONG)
def test_what_is_wrong_in_the_file_is_left_out(
    text: str, found: declared.Declared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    file = tmp_path / "session.json"
    file.write_text(text)
    monkeypatch.setenv(declared.VARIABLE, str(file))
    assert declared.read(logging.getLogger("test")) == found
    assert str(file) in caplog.text


def test_a_plain_hub_has_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(declared.VARIABLE, str(tmp_path / "none"))
    assert declared.read(logging.getLogger("test")) == NOTHING
    assert not caplog.text


def test_a_wrong_file_keeps_no_server_from_starting(tmp_path: Path) -> None:
    made = Server(tmp_path / "s")
    made.session_file.write_text("{")
    made.start()
    try:
        names = [item["name"] for item in made.ask("apps").json()["apps"]]
        assert {"terminal", "tensorboard", "sshd"} <= set(names)
        assert "Traceback" not in made.log
    finally:
        made.stop()


def test_a_part_that_does_not_work_is_left_out(tmp_path: Path) -> None:
    """A copy without a module that a part needs."""
    source = Path(DEMO).parents[2] / "jupyterhub_backendai" / "singleuser" / "server"
    copy = shutil.copytree(source, tmp_path / "backendai_session")
    (copy / "shells.py").write_text("raise RuntimeError('not today')")
    made = Server(tmp_path / "s", PYTHONPATH=f"{tmp_path}:{Path.cwd()}")
    made.start(modules=("backendai_session",))
    try:
        assert "terminal is left out: not today" in made.log
        item = made.item("terminal")
        assert not item["available"]
        assert item["why"]
        (copy / "apps.py").write_text("1 /")
    finally:
        made.stop()
    made.start(modules=("backendai_session",))
    try:
        assert made.log.count("the session's apps are left out") == 1
        headers = {"Authorization": f"token {TOKEN}"}
        status = f"http://127.0.0.1:{made.port}{BASE}api/status"
        assert requests.get(status, headers=headers, timeout=60).status_code == 200
        assert "Traceback" not in made.log
    finally:
        made.stop()


# ---- known apps


def test_known_apps_only_where_there_are_programs(tmp_path: Path) -> None:
    made = Server(tmp_path / "s").start()
    try:
        names = {item["name"] for item in made.by_key("apps").json()["apps"]}
        assert not names & {known.name for known in known_apps.APPS}
        shows = "import sys; from http.server import *\n"
        shows += "class Handler(BaseHTTPRequestHandler):\n"
        shows += " def do_GET(self):\n"
        shows += "  self.send_response(200); self.end_headers()\n"
        shows += "  self.wfile.write((self.path + ' ' + ' '.join(sys.argv[2:])).encode())\n"
        shows += "HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()"
        stand_in(made, "filebrowser", shows)
        item = made.item("filebrowser")
        assert (item["title"], item["shareable"]) == ("FileBrowser", False)
        assert made.by_key("open/filebrowser", "POST").json()["ready"]
        path, *words = made.ask("app/filebrowser/files").text.split()
        prefix = f"{BASE}backendai/app/filebrowser"
        assert path == prefix + "/files", "it knows its prefix"
        assert words[words.index("--baseURL") + 1] == prefix
        assert words[words.index("--root") + 1] == str(made.home)
        assert words[words.index("--address") + 1] == "127.0.0.1"
    finally:
        made.stop()


@pytest.mark.parametrize("app", known_apps.APPS, ids=lambda app: app.name)
def test_known_apps_are_bound_to_this_container(app: known_apps.Known) -> None:
    words = " ".join(app.command)
    assert "127.0.0.1" in words
    assert "{port}" in words
    assert not (app.shareable and app.name in known_apps.PRIVATE)
    assert app.category in known_apps.CATEGORIES


def test_a_console_is_a_tmux_session_or_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    ttyd = known_apps.find("ttyd")
    assert ttyd is not None
    monkeypatch.setattr(shutil, "which", {"tmux": "/bin/tmux"}.get)
    words = known_apps.words(ttyd.command, {"port": "7681"})
    assert words == [
        "ttyd",
        "-W",
        "-i",
        "127.0.0.1",
        "-p",
        "7681",
        "tmux",
        "new",
        "-A",
        "-s",
        "main",
    ]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert known_apps.words(ttyd.command, {"port": "1"})[-1] == "sh"


@pytest.mark.parametrize(
    ("name", "command", "private"),
    [
        ("vscode", (), True), ("mine", ("code-server", "x"), True),
        ("mine", ("/opt/x/rserver",), True),
        ("mine", ("jupyter", "lab"), True), ("mine", ("marimo", "edit"), True),
        ("mine", ("marimo", "run", "a.py"), False), ("marimo", ("marimo", "run", "a.py"), True),
        ("mine", ("mlflow", "ui"), False), ("mine", (), False),
    ],
)  # fmt: skip
def test_what_is_private_is_so_by_its_program_too(
    name: str, command: tuple[str, ...], private: bool
) -> None:
    assert known_apps.is_private(name, command) == private


def test_what_stands_in_braces_is_no_format() -> None:
    words = known_apps.words(("{port.real}", "{0}", "{port}{port}", "%s"), {"port": "1"})
    assert words == ["{port.real}", "{0}", "11", "%s"]


def test_the_second_does_nothing(tmp_path: Path) -> None:
    """The Hub's copy under another name, and an installed one."""
    made = Server(tmp_path / "s", PYTHONPATH=f"{tmp_path}:{Path.cwd()}")
    source = Path(DEMO).parents[2] / "jupyterhub_backendai" / "singleuser" / "server"
    (tmp_path / "backendai_session").symlink_to(source)
    made.start(modules=("backendai_session", MODULE))
    try:
        assert made.ask("apps").status_code == 200
        assert "loaded already" in made.log
        assert f"{MODULE} does nothing" in made.log
    finally:
        made.stop()


def test_icons_in_the_launcher(server: Server) -> None:
    headers = {"Authorization": "token the-token-of-the-server"}
    root = f"http://127.0.0.1:{server.port}{BASE}"
    info = requests.get(root + "server-proxy/servers-info", headers=headers, timeout=60).json()
    found = {entry["name"]: entry["launcher_entry"] for entry in info["server_processes"]}
    port = server.said["preopen_ports"][0]
    for name, path in (
        ("backendai-terminal", "backendai/terminal/"),
        ("backendai-tensorboard", "backendai/open/tensorboard"),
        ("backendai-app-demo", "backendai/open/demo"),
        (f"backendai-port-{port}", f"backendai/open/{port}"),
    ):
        assert found[name]["path_info"] == path
        icon = requests.get(root + "server-proxy/icon/" + name, headers=headers, timeout=60)
        assert icon.text.startswith("<svg")
    assert "backendai-app-raw" not in found
