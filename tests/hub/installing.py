"""What the user of a session does to have something in its layer: a package that pip installs, and
a file outside the home."""

from __future__ import annotations

import base64
import io
import zipfile

from .harness import Hub

KEPT = "/opt/local/kept"
KEPT_TEXT = "kept-in-the-layer-8841"
_INFO = "installed_tool-1.0.dist-info"
_WHEEL = {
    "installed_tool/__init__.py": "VALUE = 42\n",
    f"{_INFO}/METADATA": "Metadata-Version: 2.1\nName: installed-tool\nVersion: 1.0\n",
    f"{_INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n"
    "Tag: py3-none-any\n",
}
_WRITE = "import base64, sys; open(sys.argv[1], 'wb').write(base64.b64decode(sys.argv[2]))"
_FIND = "import installed_tool; print(installed_tool.VALUE, installed_tool.__file__)"


def install(hub: Hub, session_id: str) -> None:
    """Installs a package and writes a file, as the session's user and without a network."""
    wheel = "/home/work/installed_tool-1.0-py3-none-any.whl"
    hub.run_inside(session_id, "python3", "-c", _WRITE, wheel, base64.b64encode(_wheel()).decode())
    hub.run_inside(session_id, "pip", "install", "--no-index", "--no-cache-dir", wheel)
    hub.run_inside(session_id, "sh", "-c", f"echo {KEPT_TEXT} > {KEPT}")
    assert_installed(hub, session_id)


def assert_installed(hub: Hub, session_id: str) -> None:
    """The session has both, and the package not from its home."""
    assert hub.run_inside(session_id, "cat", KEPT) == f"{KEPT_TEXT}\n"
    value, place = hub.run_inside(session_id, "python3", "-c", _FIND).split()
    assert value == "42"
    assert place.startswith("/opt/venv/"), place


def _wheel() -> bytes:
    record = "".join(f"{name},,\n" for name in (*_WHEEL, f"{_INFO}/RECORD"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as wheel:
        for name, text in {**_WHEEL, f"{_INFO}/RECORD": record}.items():
            wheel.writestr(name, text)
    return buffer.getvalue()
