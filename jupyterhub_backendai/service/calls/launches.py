"""`api/history`: recent launches, five and whatever is pinned."""

from __future__ import annotations

from ...store import NotFound
from ..base import Handler, Refused
from ..schemas import LaunchChange, LaunchList, LaunchRow


class LaunchesHandler(Handler):
    """One's own recent launches."""

    async def get(self) -> None:
        rows = await self.site.db(self.site.store.launches, self.caller.name)
        self.reply(LaunchList(items=[LaunchRow.of(row) for row in rows]))


class LaunchHandler(Handler):
    """One of one's own recent launches."""

    async def patch(self, id: str) -> None:
        change, launch = self.read_body(LaunchChange), _number(id)
        write, owner = self.site.store.change_launch, self.caller.name
        try:
            row = await self.site.db(write, owner, launch, name=change.name, pinned=change.pinned)
        except NotFound:
            raise _not_found() from None
        self.reply(LaunchRow.of(row))

    async def delete(self, id: str) -> None:
        try:
            await self.site.db(self.site.store.remove_launch, self.caller.name, _number(id))
        except NotFound:
            raise _not_found() from None
        self.set_status(self.call.status)
        self.clear_header("Content-Type")
        self.finish()


def _number(id: str) -> int:
    if not (id.isascii() and id.isdigit() and len(id) < 16):
        raise _not_found()
    return int(id)


def _not_found() -> Refused:
    return Refused(404, "not_found", "There is no such launch.", "id")
