"""Renders the options form with the Hub's own template settings."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from .._data import data_paths
from ..model.errors import RequestError
from ..model.resolve import Context, SessionRequest, resolve
from ..site.options import options_view, summary
from .form import start_again

if TYPE_CHECKING:
    from .doors import OptionDoors


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(data_paths()), autoescape=True)


def json_for_script(data: Any) -> Markup:
    """JSON that can stand inside a script element: nothing in it ends the element or a comment."""
    text = json.dumps(data, ensure_ascii=True)
    for char, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, escaped)
    return Markup(text)  # noqa: S704 - escaped above


async def render_form(spawner: OptionDoors) -> str:
    """The form's inner HTML, filled with what was typed before or with this server's options."""
    context = await spawner.request_context()
    view = await options_view(spawner.site, context)
    forms = spawner.forms
    last = spawner.orm_spawner.user_options if spawner.orm_spawner else None
    view["last"] = _last(last, context)
    view["draft"] = forms.fields or None
    view["spec"] = forms.spec if forms.spec is not None else start_again(last)
    view["errors"] = [error.as_dict() for error in forms.errors]
    view["from_link"] = forms.from_link
    template = _templates().get_template("backendai/options_form.html")
    return template.render(view=view, view_json=json_for_script(view))


def _last(last: Any, context: Context) -> dict[str, Any] | None:
    """The last options with a line that describes them, if they can still be had."""
    if not isinstance(last, dict) or not last:
        return None
    spec = start_again(last)
    try:
        request: SessionRequest = resolve(spec, context)
    except RequestError:
        return None
    return {"spec": spec, "summary": summary(request, context.catalog)}
