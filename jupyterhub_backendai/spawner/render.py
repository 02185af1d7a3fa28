"""Renders the options form with the Hub's own template settings."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader
from jupyterhub.utils import url_path_join
from markupsafe import Markup

from .._data import data_paths
from ..model.errors import RequestError
from ..model.resolve import Context, SessionRequest, resolve
from ..model.sizes import size_error
from ..site.ending import ended_by
from ..site.form import start_again
from ..site.form_view import Filled, for_script
from ..site.options import options_view, summary
from ..store import Session, Unavailable
from .errors import SessionSpawnError, database_asked
from .forms import VISIT, Draft, Visit

if TYPE_CHECKING:
    from .doors import OptionDoors

BY_OWNER = "user_requested"  # the reason code of an end that nobody needs to be told of


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(data_paths()), autoescape=True)


async def render_form(spawner: OptionDoors) -> str:
    """The form's inner HTML, filled with what was typed before or with this server's options; a
    sentence where there is nothing to choose from, because the database does not answer."""
    try:
        with database_asked(spawner.log, spawner._log_name):
            return await _filled(spawner)
    except SessionSpawnError as error:
        sentence = Markup('<p class="alert alert-danger" role="alert">{}</p>')
        return str(sentence.format(error.jupyterhub_message))


async def _filled(spawner: OptionDoors) -> str:
    visit = VISIT.get()
    if visit is None or visit.spawner.user.name != spawner.user.name:
        visit = Visit(spawner, None)
    # After an error the Hub asks the default server's spawner, whatever server was to start.
    spawner = visit.spawner
    context = await spawner.request_context()
    kept = spawner.drafts.get(visit.page) if visit.page else None
    draft = visit.draft or kept or Draft()
    stored = spawner.orm_spawner.user_options if spawner.orm_spawner else None
    last, note = _last(stored, context)
    ended = await ended_because(spawner)
    ended = ended and f"What you had here last has ended: {ended}"
    filled = Filled(
        spec=start_again(stored) if draft.spec is None else draft.spec,
        fields=draft.fields,
        errors=draft.errors,
        note=" ".join(filter(None, (ended, note))) if draft.spec is None else "",
        from_link=draft.from_link,
    )
    view = filled.in_view(
        await options_view(spawner.site, context),
        last=last,
        kept=draft.from_link and kept is not None,
        viewer=visit.page.viewer if visit.page else "",
        ticket=visit.page.ticket if visit.page else "",
        launcher=_launcher(spawner),
    )
    template = _templates().get_template("backendai/options_form.html")
    return template.render(view=view, view_json=for_script(view))


def _launcher(spawner: OptionDoors) -> str:
    """Where batch sessions are launched; empty where nothing would start them."""
    if not spawner.site.configuration.service:
        return ""
    base = spawner.user.settings.get("base_url", "/")
    return str(url_path_join(base, "services/backendai/launch"))


async def ended_because(spawner: OptionDoors) -> str:
    """Why this server's last session ended, in its owner's words; empty where they ended it
    themselves, where there was none, and where nothing can be known now."""
    session = await last_session(spawner)
    if session is None or not session.status.is_final or session.reason_code == BY_OWNER:
        return ""
    reason = session.reason or ""
    return "" if reason.startswith(ended_by(session.owner)) else reason


async def last_session(spawner: OptionDoors) -> Session | None:
    """This server's newest session; None where there is none, and where nothing can be known."""
    site = spawner.site
    try:
        return await site.db(site.store.latest_of, spawner.user.name, spawner.name)
    except Unavailable as error:
        site.log.debug("%s", error)
        return None


def _last(stored: Any, context: Context) -> tuple[dict[str, Any] | None, str]:
    """What this server had last, with a line that describes it; or why it cannot be had again."""
    if not isinstance(stored, dict) or not stored:
        return None, ""
    if size_error(stored) is not None:
        return None, "What was asked for here last cannot be read any more, so this form is empty."
    spec = start_again(stored)
    try:
        request: SessionRequest = resolve(spec, context)
    except RequestError as error:
        why = error.errors[0].message
        return None, f"What you had here last cannot be started as it was: {why}"
    return {"spec": spec, "summary": summary(request, context.catalog)}, ""
