"""What a single-user server asks a Hub for, by a server that stands in for one."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jupyterhub

USER = {
    "name": "me", "kind": "user", "admin": False, "groups": [],
    "scopes": ["access:servers!server=me/lab", "access:servers!user=me", "read:users!user=me"],
}  # fmt: skip
TOKEN = "a-token-of-the-user"


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        given = self.headers.get("Authorization", "").partition(" ")[2]
        if path.endswith("/user"):
            self._answer(200 if given == TOKEN else 403, USER if given == TOKEN else {})
        else:
            self._answer(200, {"version": jupyterhub.__version__})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._answer(200, {"access_token": TOKEN, "token_type": "Bearer"})

    def _answer(self, status: int, what: Any) -> None:
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-JupyterHub-Version", jupyterhub.__version__)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Hub:
    """A Hub that knows one user, with one token, and gives it to whoever comes back from it."""

    def __enter__(self) -> Hub:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environment(self, port: int, prefix: str) -> dict[str, str]:
        """What a spawner gives a server."""
        return {
            "JUPYTERHUB_API_URL": f"http://127.0.0.1:{self._server.server_port}/hub/api",
            "JUPYTERHUB_API_TOKEN": "the-token-of-the-server",
            "JUPYTERHUB_BASE_URL": "/",
            "JUPYTERHUB_CLIENT_ID": "jupyterhub-user-me-lab",
            "JUPYTERHUB_USER": "me",
            "JUPYTERHUB_SERVER_NAME": "lab",
            "JUPYTERHUB_SERVICE_PREFIX": prefix,
            "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}{prefix}",
            "JUPYTERHUB_OAUTH_CALLBACK_URL": f"{prefix}oauth_callback",
            "JUPYTERHUB_OAUTH_SCOPES": json.dumps(["access:servers!server=me/lab"]),
            "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps(["access:servers!server=me/lab"]),
            "JUPYTERHUB_HOST": "",
            "JUPYTERHUB_ACTIVITY_URL": "",
            "JUPYTERHUB_ALLOW_TOKEN_IN_URL": "1",  # switched off where nobody asks for it
        }
