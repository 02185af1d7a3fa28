"""Pages that hibernate a session, and resume one. They need no script."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...model.errors import FieldError, RequestError
from ...model.status import Status
from ...store import Session
from ..auth import DELETE, START
from ..ending import rests_again
from ..hibernating import hibernate, obstacle, resume, rule_of
from ..image_rows import CommitRow
from .commit import PARTS, CommitPage
from .words import said_to


class HibernatePage(CommitPage):
    """It says what is kept of a session before it is hibernated. What is under way is cancelled
    where all images are."""

    scopes = START, DELETE  # it ends what runs

    async def post(self, id: str) -> None:
        session = await self._session(id)
        try:
            await hibernate(self.site, self.service.images, session, self.caller.name)
        except RequestError as refused:
            self.set_status(refused.status)
            await self._show(session, "", refused.errors)
            return
        there = self.readable(session)
        self.redirect(self.page_of(session) if there else self.hub_auth.base_url, status=303)

    async def _show(
        self, session: Session, typed: str = "", errors: Sequence[FieldError] = ()
    ) -> None:
        found, commit = await asyncio.gather(
            obstacle(self.site, session), self.site.db(self.site.store.commit_of, session.id)
        )
        told = list(dict.fromkeys([*([found] if found else []), *errors]))
        under_way = commit is not None and not commit.status.is_final
        self.write_page(
            "backendai/pages/hibernate.html", PARTS,
            session=session, page_of=self.page_of, events=None,
            told=[said_to(self.caller.name, one.message, session.owner) for one in told],
            commit=CommitRow.of(commit) if commit is not None and under_way else None,
            commit_url=self.page_of(session, "commit"), rule=rule_of(self.site, session),
            environment=self.environment_of(session), mounts=session.request.mounts,
        )  # fmt: skip


class ResumePage(CommitPage):
    """Resumes a session, and leads to it."""

    async def get(self, id: str) -> None:
        self.redirect(self.page_of(await self._session(id)))

    async def post(self, id: str) -> None:
        session = await self._session(id)
        try:
            await resume(self.site, self.service.hub, session, self.caller)
        except RequestError:
            # Pressed twice, or in two windows: it is on its way, which is what was wanted.
            session = await self._session(id)
            if not (rests_again(session) or session.status is Status.RUNNING):
                raise
        there = self.readable(session)
        self.redirect(self.page_of(session) if there else self.hub_auth.base_url, status=303)
