"""The launcher: the options form in a page of ours, and what is launched from it.

The form is posted as it is, so that it works without any script; what is wrong comes back on it,
with everything as it was typed. What a link, an earlier launch or a session fills in stops at the
review.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from ...model.errors import FieldError, RequestError
from ...model.resolve import Context, resolve
from ...model.secrets import blanked
from ...model.status import LIVE
from ...site.form import Form, in_a_link, quick_start, spec_from_form
from ...site.form_rules import AHEAD, FORM_FIELDS, IN_LINE
from ...site.form_view import Filled, for_script
from ...site.options import options_view, summary
from ...store import Filter, Launch, Session
from ..auth import READ, START
from ..base import MAX_BODY, Refused
from ..calls.sessions import find
from ..launching import context_of, launch
from ..places import Places
from ..schemas import Outlook
from .base import Page
from .words import span

PARTS = {"recent": "backendai/pages/recent.html"}
VERDICT = "verdict"
_NONE: tuple[FieldError, ...] = ()
SIGNED_OUT = {"not_signed_in", "xsrf"}
MOST_OWN, MOST_FORMS = 2, 200  # forms that one user is given at a time, and all of them
MOST_OFFERED = 30  # sessions to wait for that can be ticked; any other is named
# Of the address, and no field: which step is open, whose values are filled in, who it is for.
STEP, AGAIN, LIKE, FOR = "step", "again", "like", "for"
FROM_LINK = "These values come from a link. Check them; nothing starts until you press Launch."
MOST_TOLD = 10  # of several launched at once, of which notes tell
FROM_BEFORE = "As it was launched before. Check it; nothing starts until you press Launch."


class Turns:
    """Who is given the form. It is the heaviest page by far, made on the event loop, so that they
    are made one after the other, and what else waits for the loop comes between."""

    def __init__(self) -> None:
        told = "You open this page more than once at a time. Try again in a moment."
        self._places = Places(MOST_OWN, MOST_FORMS, "too_many_forms", told)
        self._one = asyncio.Lock()

    def place(self, user: str) -> AbstractContextManager[None]:
        """A place among those who are given it. Raises `Refused`."""
        return self._places.one(user)

    async def make(self, form: Callable[[], None]) -> None:
        """Has `form` make and write it, in turn."""
        async with self._one:
            form()
            await asyncio.sleep(0)


class LaunchPage(Page):
    """Chooses and launches sessions."""

    _typed: dict[str, list[str]] | None = None
    _turned_away: Refused | None = None

    async def _admit(self) -> None:
        try:
            await super()._admit()
        except Refused as refused:
            if self.request.method != "POST" or self.part:
                raise
            self._turned_away = refused  # what was typed is read first, to be given back

    async def get(self) -> None:
        if self.part:
            self.write_page("backendai/pages/launcher.html", PARTS, launches=await self._recent())
            return
        with self._place():
            filled = await self._proposed()
            filled, context = await self._checked(filled, check=bool(filled.note))
            await self._show(filled, context, proposed=bool(filled.note))

    async def post(self) -> None:
        form = self._typed = self.form()
        if self._turned_away is not None:
            raise self._turned_away
        quick, spec = quick_start(form, None), spec_from_form(form)
        if quick is not None:
            spec = {**quick, "owner": spec.get("owner")}
        if self.part == VERDICT:
            await self._judge(spec)
            return
        try:
            if "fill" not in form:
                self.redirect(await self._launched(form, spec), status=303)
                return
            errors, status = _NONE, 200
        except RequestError as error:
            errors, status = error.errors, error.status
        typed = Filled(spec, dict(form) if quick is None else None, errors)
        with self._place():
            filled, context = await self._checked(typed, check=form.get("fill") == ["again"])
            self.set_status(status)
            await self._show(filled, context)

    async def _launched(self, form: Form, spec: Mapping[str, Any]) -> str:
        """Launches what was posted, unless this very form was; where that leads. What was changed
        in a form since is another."""

        async def work() -> str:
            sessions = await launch(self.site, self.caller, spec, await self._context(spec))
            self.made_sessions = [session.id for session in sessions]
            ids = ",".join(session.id for session in sessions[:MOST_TOLD])
            return f"{self.hub_auth.base_url}?launched={ids}#s-{sessions[0].id}"

        if not any(form.get("ticket", ())):
            return await work()
        sent = sha256(repr(sorted(form.items())).encode()).digest()
        return await self.service.once.launch(self.caller.name, sent, work)

    async def _context(self, spec: Mapping[str, Any]) -> Context:
        context = await context_of(self.service, self.caller, spec, START)
        if not self.caller.may(START, context.user, context.groups):
            raise Refused(403, "missing_scope", f"Your token does not have the scope {START}.")
        return context

    # ---- what fills the form ------------------------------------------------------------------

    async def _proposed(self) -> Filled:
        """What the address asks for: a link's values, those of an earlier launch, or nothing."""
        query = {n: self.get_query_arguments(n) for n in self.request.query_arguments}
        if again := query.get(AGAIN):
            row = next((row for row in await self._launches() if str(row.id) == again[0]), None)
            return self._again(None if row is None else row.asked)
        if like := query.get(LIKE):
            session = await find(self.site, self.caller, like[0], READ)
            return self._again(self._of_owner(session))
        fields = in_a_link(query)
        if not fields and (owner := query.get(FOR)):
            return Filled({"owner": owner[0]})
        known = {*fields, STEP, FOR, *self.not_settings}
        left = _left_out({name.partition(".")[0] for name in query} - known)
        if not fields:
            return Filled({})
        note = FROM_LINK
        if left and STEP not in query:
            note += f" A link cannot set all of it, so this is left out: {left}."
        return Filled(spec_from_form(fields), fields, note=note)

    def _of_owner(self, session: Session) -> Mapping[str, Any] | None:
        """What a session was asked as: for its owner again, where whoever asks may act for them."""
        if session.asked is None or session.owner == self.caller.name:
            return session.asked
        may = self.caller.may(START, session.owner, session.owner_groups)
        return {**session.asked, "owner": session.owner if may else None}

    def _again(self, asked: Mapping[str, Any] | None) -> Filled:
        if asked is None:
            return Filled({}, note="It is not known any more what was launched. Choose anew.")
        note, secret = FROM_BEFORE, blanked(asked)
        if secret:
            note += f" Values that look secret were not kept; type them again: {', '.join(secret)}."
        return Filled(asked, note=note)

    async def _checked(self, filled: Filled, *, check: bool) -> tuple[Filled, Context]:
        """With what is wrong with it, and who it is for: whoever looks where the owner that it
        names is none, or not theirs to act for."""
        errors, spec = filled.errors, dict(filled.spec)
        try:
            context = await self._context(spec)
        except RequestError as error:
            errors = errors or error.errors
            context = await self._context({**spec, "owner": None})
        if filled.fields is None and spec.get("name") in context.names_in_use:
            del spec["name"]  # of the session that it was: not what was typed now
        if check and spec and not errors:
            errors = _errors(spec, context)
        return replace(filled, spec=spec, errors=errors), context

    # ---- answers ------------------------------------------------------------------------------

    async def _show(self, filled: Filled, context: Context, *, proposed: bool = False) -> None:
        view = filled.in_view(
            await options_view(self.site, context),
            viewer=self.caller.name,
            ticket=secrets.token_urlsafe(16),
            service={**await self._more(context), "proposed": proposed, "step": self._step},
        )
        launches = await self._recent()
        await self.service.launchers.make(
            lambda: self.show(
                "backendai/pages/launcher.html", self.caller, view=view, owner=context.user,
                view_json=for_script(view), launches=launches, events="",
            )
        )  # fmt: skip

    def _place(self) -> AbstractContextManager[None]:
        return self.service.launchers.place(self.caller.name)

    @property
    def _step(self) -> int | None:
        """Where who posted the form for somebody else goes on; None: where that depends on it."""
        return 1 if self._typed is not None and self._typed.get("fill") == ["owner"] else None

    async def _more(self, context: Context) -> dict[str, Any]:
        """What only this door offers."""
        wanted = Filter(owner=context.user, statuses=LIVE, type="batch")
        sessions, _ = await self.site.db(self.site.store.list_sessions, wanted, limit=MOST_OFFERED)
        policy = context.policy
        return {
            "acts_for_others": self.acts_for_others,
            "priority": {"own": policy.priority, "most": policy.highest_priority},
            "sessions": [
                {"id": s.id, "name": s.name, "status": s.status.value.lower()} for s in sessions
            ],
        }

    async def _launches(self) -> list[Launch]:
        """Recent launches of who looks, whoever the form is for."""
        if not (self.caller.is_user and self.caller.may(READ, self.caller.name)):
            return []
        return await self.site.db(self.site.store.launches, self.caller.name)

    async def _recent(self) -> list[dict[str, Any]]:
        """Recent launches, each with a line that it is known by."""
        rows = await self._launches()
        context = await self._context({}) if rows else None
        return [{"row": row, "told": self._told(row, context)} for row in rows if context]

    def _told(self, row: Launch, context: Context) -> str:
        asked = {key: value for key, value in row.asked.items() if key not in _NOT_TOLD}
        try:
            return summary(resolve(asked, context), context.catalog)
        except RequestError as error:
            return f"Not as it was: {error.errors[0].message}"

    async def _judge(self, spec: Mapping[str, Any]) -> None:
        """What would happen to this now: all that is wrong with it, or when it would start."""
        verdict, errors = None, _NONE
        try:
            context = await self._context(spec)
            request = resolve(spec, context)
            outlook = await self.service.estimates.of_request(
                self.site, self.caller.name, request, context
            )
            verdict = verdict_of(outlook)
        except RequestError as error:
            errors = error.errors
        told = {"verdict": verdict, "errors": [error.as_dict() for error in errors]}
        self.finish(json.dumps(told))

    def tell(self, error: object, status: int, errors: list[dict[str, str]]) -> None:
        """What was typed and could not be launched comes back to be posted again: after signing
        in, say. Only to a page of ours: nobody else has typed it."""
        if self.part or self._typed is None or not self._from_here():
            super().tell(error, status, errors)
            return
        self.show(
            "backendai/pages/launch_again.html", self._caller,
            signed_out=any(error["code"] in SIGNED_OUT for error in errors),
            told=[error["message"] for error in errors], typed=_pairs(self._typed),
        )  # fmt: skip

    def _from_here(self) -> bool:
        headers = self.request.headers
        if headers.get("Sec-Fetch-Site") == "same-origin":
            return True
        return urlsplit(headers.get("Origin", "")).netloc == self.request.host


# A launch is known by the rest of it: these say nothing, or are another session's by now.
_NOT_TOLD = frozenset({"name", "count", "owner", "depends_on", "batch", "type", "priority"})


def _left_out(names: set[str]) -> str:
    """Names of what a link cannot set, and how many are no field: whoever wrote the link chose
    those, and they are no words of ours."""
    fields = sorted(names & FORM_FIELDS)
    rest = len(names - FORM_FIELDS)
    others = f"{rest} {'other' if rest == 1 else 'others'}" if rest else ""
    return " and ".join(filter(None, (", ".join(fields), others)))


def _errors(spec: Mapping[str, Any], context: Context) -> tuple[FieldError, ...]:
    try:
        resolve(spec, context)
    except RequestError as error:
        return error.errors
    return _NONE


def _pairs(form: Form) -> list[tuple[str, str]]:
    pairs = [(name, value) for name, values in form.items() for value in values if name != "fill"]
    size = sum(len(name) + len(value) for name, value in pairs)
    return pairs if size <= MAX_BODY else []


def verdict_of(outlook: Outlook) -> dict[str, str]:
    """What would happen, in the words that stand beside the button."""
    if outlook.code != "waits":
        return {"code": outlook.code, "text": outlook.text, "why": ""}
    text = AHEAD.replace("{ahead}", str(outlook.ahead)) if outlook.ahead else IN_LINE
    if outlook.starts_in is not None:
        after = f", {outlook.ahead} ahead of you." if outlook.ahead else "."
        text = f"Waits about {span(max(60, outlook.starts_in))}{after}"
    return {"code": outlook.code, "text": text, "why": outlook.text}
