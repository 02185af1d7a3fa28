"""`api/key`: the key that one signs in to one's sessions with, by SSH."""

from __future__ import annotations

from ...model.keys import SshKeys
from ..base import Handler, Refused


class KeyHandler(Handler):
    """One's own private key; nobody else's, whatever one may."""

    async def get(self) -> None:
        self._reply(await self.site.ssh_keys(self._owner()))

    async def post(self) -> None:
        owner = self._owner()
        self.set_status(self.call.status)
        self._reply(await self.site.renew_ssh_keys(owner))
        self.site.log.info("%s has new SSH keys", owner)

    def _owner(self) -> str:
        if not self.caller.is_user:
            raise Refused(403, "not_a_user", "A service has no sessions, and no key to them.")
        return self.caller.name

    def _reply(self, keys: SshKeys) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="id_container"')
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.finish(keys.private)
