"""`E/tunnel/{app}`: the bare connection to an app, for the service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import activity, known, ports, rewriting, splice
from .access import Failure, KeyOnly, checked
from .processes import NotStarted

PROTOCOL = "backendai-tcp"


class TunnelHandler(KeyOnly):
    """After `101` the connection is the app's."""

    @checked
    async def get(self, name: str) -> None:
        asked = self.request.headers
        tokens = [token.strip().lower() for token in asked.get("Connection", "").split(",")]
        app = self._find(name)
        if "upgrade" not in tokens or asked.get("Upgrade", "").lower() != PROTOCOL:
            self.set_header("Upgrade", PROTOCOL)
            raise Failure(426, "upgrade", f"Ask with Connection: Upgrade, Upgrade: {PROTOCOL}.")
        try:
            self.parts.splices.take()
        except splice.Full:
            message = "There are too many connections to this session already."
            raise Failure(503, "too_many", message) from None
        try:
            link = await self._connect(app)
        except BaseException:
            self.parts.splices.drop()
            raise
        moved = self._moved(app)
        answer = (("Connection", "Upgrade"), ("Upgrade", PROTOCOL))
        head = rewriting.raw_head("HTTP/1.1 101 Switching Protocols", answer)
        stream = self.detach()
        self.parts.splices.splice(stream, link, head, moved)

    def _moved(self, app: Any) -> Callable[[Any], Any]:
        """What is to be called with what the client sends."""
        settings, watch = self.settings, self.parts.watch
        watch.ask()
        if app.name != "sshd":  # who comes there may be nobody but a scanner
            activity.note(settings)
        if app.protocol == "http" or app.name == "sshd":
            return watch.bulk(lambda: activity.note(settings))

        def used(_: Any) -> None:
            activity.note(settings)
            watch.use()

        return used

    def _find(self, name: str) -> Any:
        app = self.parts.apps.get(name)
        if app is None or app.port is None:
            raise Failure(404, "no_such_app", "There is no such app in this session.")
        if app.protocol == "http" and (not app.shareable or name in known.PRIVATE):
            raise Failure(404, "private", f"{app.title} is for the session's owner alone.")
        return app

    async def _connect(self, app: Any) -> Any:
        apps = self.parts.apps
        try:
            if app.name == "sshd" and not apps.is_listening(app):
                await apps.start(app)
                app = apps.get(app.name) or app
            return await ports.connect(apps.target(app))
        except (OSError, NotStarted) as error:
            message = f"{app.title} does not answer. {error}"
            raise Failure(502, "not_answering", message) from error


def handlers(parts):
    return [(parts.pattern(r"tunnel/([^/]+)"), TunnelHandler, {"parts": parts})]
