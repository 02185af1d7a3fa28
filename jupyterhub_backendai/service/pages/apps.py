"""The apps of a session: each opened by its owner, and the ways that others have to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from jupyterhub.utils import url_path_join
from pydantic import ValidationError

from ...model.errors import FieldError, RequestError
from ...model.policy import Policy
from ...store import Session
from ..apps import AppRow, Opening, SessionApps
from ..auth import START
from ..base import Refused
from ..calls.sessions import find
from ..opening import SessionDoors, addresses_for
from ..ssh import SshWords, words
from ..ways.rules import ASKS_ITSELF
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
        found = await self._doors(session).all()
        mine = session.owner == self.caller.name
        policy = self.site.policies.of(session.owner, session.owner_groups)
        addresses = addresses_for(self)

        def app_href(app: AppRow) -> str:
            return addresses.of_item(session, app) if mine and app.protocol == "http" else ""

        self.write_page(
            "backendai/pages/apps.html", PARTS,
            session=session, page_of=self.page_of, events=self.events(session),
            found=found, by_category=list(by_category(found.apps)), app_href=app_href,
            apps_url=self.page_of(session, "apps"), told=told, typed=typed or {},
            wrong=wrong or {}, policy=policy, mine=mine,
            may_close=self.caller.may(START, session.owner, session.owner_groups),
            may_open=lambda app: self._may_open(app, policy),
            prefers=policy.preferred_port and self.service.book.settings.pool is not None,
            any_shareable=any(app.shareable and app.available for app in found.apps),
            ssh=await self._ssh(session, found) if mine else None,
            key_url=url_path_join(self.hub_auth.base_url, "api/key"),
            client_url=f"{self.hub_auth.base_url}{self.service.shell.static.path}/{CLIENT}",
            token_url=f"{self._hub}token" if self._hub.endswith("/") else f"{self._hub}/token",
        )  # fmt: skip

    def _may_open(self, app: AppRow, policy: Policy) -> bool:
        """Whether there is a way to it that could be opened and is not."""
        has_ports = self.service.book.settings.pool is not None
        if app.ways or not app.available:
            return False
        if app.name in ASKS_ITSELF:
            return has_ports
        shared = policy.public_apps and app.shareable
        return shared and (app.protocol == "http" or has_ports)

    async def _ssh(self, session: Session, found: SessionApps) -> SshWords:
        addresses = addresses_for(self)
        ways = [way for app in found.apps if app.name in ASKS_ITSELF for way in app.ways]
        server = self.server_url(session)
        return words(
            session.name, self.site.hub_id, await self.site.ssh_keys(session.owner),
            host=(ways[0].host or "") if ways else "", port=ways[0].port if ways else None,
            server_url=server if server.startswith("http") else addresses.origin + server,
        )  # fmt: skip


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else text


def by_category(apps: Iterable[AppRow]) -> Iterator[tuple[str, list[AppRow]]]:
    """Apps in their order, with those of a category together."""
    groups: dict[str, list[AppRow]] = {}
    for app in apps:
        groups.setdefault(app.category or "Other", []).append(app)
    yield from groups.items()
