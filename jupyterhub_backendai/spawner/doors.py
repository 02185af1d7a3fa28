"""The Hub's doors for options: form, link, REST, stored options. One check behind all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any

from traitlets import Bunch, Dict, HasTraits, default, observe

from ..model.catalog import Catalog
from ..model.errors import FieldError, RequestError
from ..model.images import with_images
from ..model.policy import Policy
from ..model.resolve import Context, SessionRequest, resolve
from ..model.sizes import size_error
from ..model.status import MAX_TRIES, Status
from ..site.form import form_from_link, quick_start, spec_from_form
from ..site.runtime import Site
from ..store import Session
from .errors import SessionSpawnError, database_asked
from .forms import VISIT, Draft, Drafts, FormPage, Visit
from .render import ended_because, last_session, render_form

PREPARE_TIMEOUT = 3600  # seconds, for an image to be downloaded and folders to be made
MAX_TICKET = 400  # characters; a viewer's name has 255 at most
START_MARGIN = 60  # seconds that the Hub waits longer than we do, so that ours is the message


class LenientDict(Dict):
    """A Dict for what is stored: anything else counts as nothing, instead of breaking a start."""

    def validate(self, obj: Any, value: Any) -> Any:
        return super().validate(obj, value if isinstance(value, dict) else {})


class OptionDoors(HasTraits):
    """The part of a spawner that takes what a user asks for and has it checked."""

    user: Any
    name: str
    log: Any
    _log_name: Any
    orm_spawner: Any
    user_options = LenientDict()
    start_timeout: Any
    _whole_timeout = 0  # seconds that the Hub waits for a start; 0 before there was any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._request: SessionRequest | None = None
        self._queued: Session | None = None
        self._launch_timeout = float(getattr(self, "start_timeout"))  # noqa: B009 - a trait of Spawner

    @property
    def site(self) -> Site:
        """The site this spawner belongs to."""
        raise NotImplementedError

    def site_catalog(self) -> Catalog:
        """What this user may be offered before policy; an engine may add to the configured."""
        return self.site.catalog

    async def read_image_option(self, options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Options with the image looked up, and whether it is thereby allowed."""
        return options, False

    @property
    def drafts(self) -> Drafts:
        """What people typed and did not launch."""
        return Drafts.of(self.site)

    @observe("handler")
    def _visited(self, change: Bunch) -> None:
        """The Hub hands over the request that asks for the form; so it says who looks.

        Noted at once, in the request's own context: by the time the form is made, `handler` may
        be another request's.
        """
        viewer = getattr(getattr(change.new, "current_user", None), "name", None)
        visit = VISIT.get()
        if viewer and (visit is None or visit.spawner is not self):
            VISIT.set(Visit(self, FormPage(viewer, self.user.name, self.name)))

    def refused(self, error: RequestError) -> SessionSpawnError:
        """What the Hub is to tell. The form of this request, if it has one, shows it too."""
        visit = VISIT.get()
        if visit is not None and visit.spawner is self and visit.draft is not None:
            visit.draft.errors = error.errors
        return SessionSpawnError.refused(error)

    @default("options_form")
    def _default_options_form(self) -> Any:
        return lambda spawner: spawner.render_form()

    @default("options_from_form")
    def _options_from_form(self) -> Any:
        return self._read_form

    @default("apply_user_options")
    def _default_apply_user_options(self) -> Any:
        async def apply(spawner: OptionDoors, options: dict[str, Any]) -> None:
            await spawner.accept(options)

        return apply

    def form_launched(self) -> None:
        """This server runs: nothing that was typed for it is kept, and no task that began with
        the request holds it either."""
        self.drafts.launched(self.user.name, self.name)
        visit = VISIT.get()
        if visit is not None and visit.spawner is self:
            visit.draft = None

    async def render_form(self) -> str:
        """The options form for this spawner's user, as HTML."""
        return await render_form(self)

    async def ended_because(self) -> str:
        """Why this server's last session ended, if not by its owner: its page asks for it."""
        return await ended_because(self)

    async def rests(self) -> bool:
        """Whether this server's session is hibernated, for its page."""
        session = await last_session(self)
        return session is not None and session.status is Status.HIBERNATED

    async def last_session(self) -> str:
        """The id of this server's newest session, for its page; empty where there is none."""
        session = await last_session(self)
        return session.id if session is not None else ""

    def _read_form(self, form: Mapping[str, list[Any]]) -> Awaitable[dict[str, Any]]:
        """The form as a spec. It is checked here too, by the one check there is: the Hub shows on
        the form what is raised here, but only for a second what the start itself raises.

        Not a coroutine as a whole: the visit is to be seen by the request that called this.
        """
        ticket = str((form.get("ticket") or [""])[0])[:MAX_TICKET]
        visit = Visit(self, FormPage.of_ticket(ticket, self.user.name, self.name))
        VISIT.set(visit)
        self._refuse_size(form)
        quick = quick_start(form, self.orm_spawner.user_options)
        options = spec_from_form(form) if quick is None else quick
        # A quick start leaves no field as typed: the form then shows the options themselves.
        visit.draft = Draft.of(form if quick is None else {}, options)
        if visit.page is not None:
            self.drafts.keep(visit.page, visit.draft)
        return self._checked(options)

    async def _checked(self, options: dict[str, Any]) -> dict[str, Any]:
        await self.check(options)
        return options

    def _refuse_size(self, options: object) -> None:
        if (error := size_error(options)) is not None:
            raise self.refused(RequestError([error]))

    def options_from_query(self, query_data: Mapping[str, list[Any]]) -> Awaitable[dict[str, Any]]:
        """A link fills the form and never starts anything by itself: a page of anybody's could
        contain it. So this always raises, with what there is to put right or to look through.
        It is shown to who followed it, once, and takes the place of nothing that was typed."""
        self._refuse_size(query_data)
        try:
            form = form_from_link(query_data)
        except KeyError as error:
            raise SessionSpawnError(
                f"A link cannot set {str(error.args[0])[:64]}. Fill in the form instead.",
                reason="bad_options",
                status=400,
            ) from None
        options = spec_from_form(form)
        visit = VISIT.get()
        if visit is not None and visit.spawner is self:
            visit.draft = Draft.of(form, options, from_link=True)
        return self._proposed(options)

    async def _proposed(self, options: dict[str, Any]) -> dict[str, Any]:
        await self.check(options)
        raise SessionSpawnError(
            "A link filled in this form. Look it through, then launch.", reason="link", status=200
        )

    async def request_context(self, options: object = None) -> Context:
        """Who asks and all that the answer to these options depends on."""
        groups = frozenset(group.name for group in self.user.orm_user.groups)
        with database_asked(self.log, self._log_name):
            context = await self.site.context(
                self.user.name, groups, bool(self.user.admin), options
            )
        catalog = self.site_catalog()
        if catalog is not self.site.catalog:
            context = replace(context, catalog=with_images(catalog, context.images))
        return context

    async def check(self, options: dict[str, Any]) -> SessionRequest:
        """The one check of what was asked, whichever door it came through. Changes nothing of a
        start that is under way. Raises `SessionSpawnError` with every error.
        """
        self._refuse_size(options)
        options, image_allowed = await self.read_image_option(dict(options or {}))
        context = await self.request_context(options)
        if image_allowed:
            policy = context.policy.model_copy(update={"manual_image": True})
            context = _with_policy(context, policy)
        try:
            request = resolve(options, context)
            if request.count > 1:
                message = "A server of the Hub is one session. Start several through the service."
                raise RequestError([FieldError("count", "one_server", message)])
            return request
        except RequestError as error:
            raise self.refused(error) from None

    async def accept(self, options: dict[str, Any]) -> SessionRequest:
        """Checks what is about to be started. Raises `SessionSpawnError` with every error."""
        self._request = None
        with database_asked(self.log, self._log_name):
            self._queued = queued = await self.queued(options)
        self._request = request = queued.request if queued else await self.check(options)
        self._wait_for_all()
        return request

    async def queued(self, options: dict[str, Any]) -> Session | None:
        """The session of this server that waits in the queue already, where this is its start: it
        was checked when it came in. Raises `SessionSpawnError`."""
        return None

    async def accepted(self) -> SessionRequest:
        """The request that is to be started, checked. Raises `SessionSpawnError`."""
        return self._request or await self.accept(self.user_options)

    @observe("start_timeout")
    def _start_timeout_set(self, change: Mapping[str, Any]) -> None:
        """By the configuration, a group or a hook: it is the time of the launch alone."""
        if change["new"] != self._whole_timeout:
            self._launch_timeout = float(change["new"])
            if self._whole_timeout:
                self._wait_for_all()

    @property
    def patience(self) -> float:
        """Seconds that a start waits for a place. With the service on it waits no longer than
        somebody looks at a page, because the session goes on waiting without it."""
        configuration = self.site.configuration
        return float(
            configuration.queue_patience if configuration.service else configuration.queue_timeout
        )

    def _wait_for_all(self) -> None:
        """Has the Hub wait as long as a start may take with all its waits. The Hub reads this
        before the first line of start()."""
        waits = self.patience + PREPARE_TIMEOUT + self._launch_timeout
        self._whole_timeout = int(MAX_TRIES * waits + START_MARGIN)
        self.start_timeout = self._whole_timeout


def _with_policy(context: Context, policy: Policy) -> Context:
    """The same context with another policy for its one user."""
    policies = context.policies.model_copy(update={"users": {context.user: policy}})
    return replace(context, policies=policies)
