"""The apps of a session: each opened by its owner, and the ways that others have to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, urljoin

from jupyterhub.utils import url_path_join
from pydantic import ValidationError

from ...model.errors import FieldError, RequestError
from ...store import Session
from ..apps import Addresses, AppRow, Opening, SessionApps
from ..auth import START
from ..base import Refused
from ..calls.sessions import find
from ..opening import SessionDoors, addresses_for
from ..ssh import SshWords, words
from ..ways.rules import ASKS_ITSELF, asks_itself, may_be_opened
from .session import SessionPage
from .words import session_to

PARTS = {"apps_list": "backendai/pages/apps_list.html", "apps": "backendai/pages/session_apps.html"}
CLIENT = "ssh/backendai-ssh.py"


class AppsPage(SessionPage):
    """All apps of a session, by category. It needs no script: its forms come back to it."""

    async def get(self, id: str) -> None:
        session = await self.session(id)
        await self._show(session)

    async def post(self, id: str) -> None:
        session = session_to(self.caller.name, await find(self.site, self.caller, id, START))
        form = self.form()
        name, do, typed = (
            form.get(key, [""])[-1].strip() for key in ("app", "do", "preferred_port")
        )
        try:
            if do == "new_key":
                if session.owner != self.caller.name:
                    raise Refused(403, "not_yours", "It is its owner's key.")
                await self.site.renew_ssh_keys(session.owner)
            elif do == "close":
                await self._doors(session).close(name)
            else:
                await self._open(session, name, typed)
        except RequestError as failure:
            at_port = [e.message for e in failure.errors if e.field == "preferred_port"]
            others = [e.message for e in failure.errors if e.field != "preferred_port"]
            self.set_status(failure.status)
            wrong = {name: " ".join(at_port)} if at_port else {}
            await self._show(session, others, {name: typed}, wrong)
            return
        except Refused as failure:
            self.set_status(failure.status)
            await self._show(session, [e["message"] for e in failure.errors], {name: typed})
            return
        # What came of it stands beside the app; a reload does not send the form again.
        self.redirect(f"{self.page_of(session, 'apps')}#app-{quote(name)}", status=303)

    async def _open(self, session: Session, name: str, typed: str) -> None:
        """Opens an app to others. Raises `RequestError`, `Refused`."""
        port = None
        if typed:
            try:
                port = Opening.model_validate({"preferred_port": _number(typed)}).preferred_port
            except ValidationError:
                message = "Write a number from 1 to 65535, or nothing."
                raise RequestError([FieldError("preferred_port", "bad_port", message)]) from None
        asked = Opening(public=name not in ASKS_ITSELF, preferred_port=port)
        await self._doors(session).open(name, asked)

    def _doors(self, session: Session) -> SessionDoors:
        return SessionDoors(self.service, session, self.caller.name, addresses_for(self))

    async def _show(
        self,
        session: Session,
        told: Sequence[str] = (),
        typed: dict[str, str] | None = None,
        wrong: dict[str, str] | None = None,
    ) -> None:
        addresses = addresses_for(self)
        found = await self._doors(session).all()
        mine = session.owner == self.caller.name
        shown: dict[str, Any] = {
            "session": session, "found": found, "apps_url": self.page_of(session, "apps"),
            "app_href": lambda app: _href(addresses, session, app) if mine else "",
            "asks_itself": lambda app: asks_itself(app.name, app.protocol),
        }  # fmt: skip
        if self.part != "apps":
            shown |= self._of_page(session, found)
            ssh = await self._ssh(session, found, addresses) if mine else None
            shown |= {"ssh": ssh, "told": told, "typed": typed or {}, "wrong": wrong or {}}
        self.write_page("backendai/pages/apps.html", PARTS, **shown)

    def _of_page(self, session: Session, found: SessionApps) -> dict[str, Any]:
        """What the page shows beside the tiles that the panel has too."""
        policy = self.site.policies.of(session.owner, session.owner_groups)
        settings = self.service.book.settings
        return {
            "page_of": self.page_of, "events": self.events(session),
            "by_category": list(by_category(found.apps)),
            "mine": session.owner == self.caller.name, "policy": policy,
            "may_close": self.caller.may(START, session.owner, session.owner_groups),
            "may_open": lambda app: not app.ways and may_be_opened(app, policy, settings),
            "prefers": policy.preferred_port and settings.pool is not None,
            "any_shareable": any(app.shareable and app.available for app in found.apps),
            "key_url": url_path_join(self.hub_auth.base_url, "api/key"),
            "client_url": f"{self.hub_auth.base_url}{self.service.shell.static.path}/{CLIENT}",
            "token_url": url_path_join(self._hub, "token"),
        }  # fmt: skip

    async def _ssh(self, session: Session, found: SessionApps, addresses: Addresses) -> SshWords:
        ways = [
            way for app in found.apps if asks_itself(app.name, app.protocol) for way in app.ways
        ]
        return words(
            session.name, self.site.hub_id, await self.site.ssh_keys(session.owner),
            host=(ways[0].host or "") if ways else "", port=ways[0].port if ways else None,
            server_url=urljoin(addresses.origin, self.server_url(session)),
        )  # fmt: skip


def _href(addresses: Addresses, session: Session, app: AppRow) -> str:
    return addresses.of_item(session, app) if app.protocol == "http" else ""


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else text


def by_category(apps: Iterable[AppRow]) -> Iterator[tuple[str, list[AppRow]]]:
    """Apps in their order, with those of a category together."""
    groups: dict[str, list[AppRow]] = {}
    for app in apps:
        groups.setdefault(app.category or "Other", []).append(app)
    yield from groups.items()
