"""`api/key`: the key that one signs in to one's sessions with, by SSH."""

from __future__ import annotations

from ..base import Handler, Refused


class KeyHandler(Handler):
    """One's own private key; nobody else's, whatever one may."""

    async def get(self) -> None:
        if not self.caller.is_user:
            raise Refused(403, "not_a_user", "A service has no sessions, and no key to them.")
        keys = await self.site.ssh_keys(self.caller.name)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="id_container"')
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.finish(keys.private)
