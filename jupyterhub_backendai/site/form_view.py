"""The options form as data: what one may choose, what stands in it, and what is wrong with it.

Both doors render it with the same templates: the Hub's page inside the Hub's own form, the
service's launcher in a page of ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from ..model.errors import FieldError
from ..model.sizes import size_error
from ..model.slots import GPU_SLOTS
from ..model.spec import MAX_DEPENDENCIES, MAX_MOUNTS, MAX_VARIABLES

# What comes in rows: the setting, what they are called, how many there may be, and their fields.
_ROWS = (
    ("env", "variables", MAX_VARIABLES, ("env_name", "env_value")),
    ("mounts", "folders", MAX_MOUNTS, ("mount", "new_folder")),
    ("depends_on", "sessions to wait for", MAX_DEPENDENCIES, ("depends_on",)),
)

# Of the view, what only the templates read. Their fields have it, so the script finds it there.
_IN_THE_FIELDS = frozenset(
    {"spec", "note", "from_link", "kept", "ticket", "launcher", "manual_image", "folder_limit"}
)


@dataclass(frozen=True)
class Filled:
    """What stands in a form: `fields` as they were typed, or else what `spec` says."""

    spec: Mapping[str, Any]
    fields: Mapping[str, list[str]] | None = None
    errors: tuple[FieldError, ...] = ()
    note: str = ""  # for who looks at it, such as where the values came from
    from_link: bool = False

    def in_view(self, options: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The form's view: `options` are what may be chosen (`options_view`)."""
        return self.cut()._view(options, **more)

    def cut(self) -> Filled:
        """The same with no more rows than a session may have, and an error that says so where some
        are left out. A form's rows cost time to make, and whoever sends it can write any number."""
        spec, errors = dict(self.spec), self.errors
        fields = None if self.fields is None else dict(self.fields)
        for setting, what, most, names in _ROWS:
            rows, values = spec.get(setting), [(fields or {}).get(name, []) for name in names]
            many = len(rows) if isinstance(rows, (list, tuple, dict)) else 0
            if max(many, *map(len, values)) <= most:
                continue
            if isinstance(rows, dict):
                spec[setting] = dict(list(rows.items())[:most])
            elif isinstance(rows, (list, tuple)):
                spec[setting] = rows[:most]
            if fields:
                fields |= {name: fields[name][:most] for name in names if name in fields}
            text = f"There can be at most {most} {what}. Those after that are left out."
            others = (e for e in errors if (e.field, e.code) != (setting, "too_many"))
            errors = (FieldError(setting, "too_many", text), *others)
        return replace(self, spec=spec, fields=fields, errors=errors)

    def _view(self, options: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return {
            "last": None,
            "kept": False,
            "viewer": "",
            "ticket": "",
            **options,
            "resource_groups": [_for_page(group) for group in options["resource_groups"]],
            "draft": self.fields or None,
            "spec": {} if size_error(self.spec) is not None else self.spec,
            "errors": [error.as_dict() for error in self.errors],
            "note": self.note,
            "from_link": self.from_link,
            **more,
        }


# What the page has of a kind of GPUs, and what of that is not in its text; the rest is for programs
_OF_A_KIND = ("slot", "profile", "limits", "quantum", "steps", "means")
_IN_THE_TEXT = frozenset({"simulated", "held"})  # of the rules
_TOLD = (*_OF_A_KIND, "title", "label", "simulated")


def _for_page(group: Mapping[str, Any]) -> dict[str, Any]:
    """A resource group less what the form has no use for, such as bounds on GPUs that it lacks: a
    page is to be light."""
    lacks = set(GPU_SLOTS) - {kind["slot"] for kind in group["gpus"]}

    def judged(place: Mapping[str, Any]) -> dict[str, Any]:
        if "bounds" not in place:
            return dict(place)
        bounds = [bound for bound in place["bounds"] if bound["slot"] not in lacks]
        return {**place, "bounds": bounds}

    kinds = [{name: kind[name] for name in _TOLD} for kind in group["gpus"]]
    agents = [judged(agent) for agent in group["agents"]]
    return judged(group) | {"gpus": kinds, "agents": agents}


def for_script(view: Mapping[str, Any]) -> Markup:
    """What the form's script reads of its view; of what was typed, whether there is any."""
    told = {name: value for name, value in view.items() if name not in _IN_THE_FIELDS}
    told["rules"] = {n: rule for n, rule in view["rules"].items() if n not in _IN_THE_TEXT}
    told["resource_groups"] = [
        {**group, "gpus": [{name: kind[name] for name in _OF_A_KIND} for kind in group["gpus"]]}
        for group in view["resource_groups"]
    ]
    return _json_for_script({**told, "draft": bool(view.get("draft"))})


def _json_for_script(data: Any) -> Markup:
    """JSON that can stand inside a script element: nothing in it ends the element or a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for char, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, escaped)
    return Markup(text)  # noqa: S704 - escaped above
