"""The options form as data: what one may choose, what stands in it, and what is wrong with it.

Both doors render it with the same templates: the Hub's page inside the Hub's own form, the
service's launcher in a page of ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ..model.errors import FieldError
from ..model.sizes import size_error


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
        return {
            "last": None,
            "kept": False,
            "viewer": "",
            "ticket": "",
            **options,
            "draft": self.fields or None,
            "spec": {} if size_error(self.spec) is not None else self.spec,
            "errors": [error.as_dict() for error in self.errors],
            "note": self.note,
            "from_link": self.from_link,
            **more,
        }


def json_for_script(data: Any) -> Markup:
    """JSON that can stand inside a script element: nothing in it ends the element or a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for char, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, escaped)
    return Markup(text)  # noqa: S704 - escaped above
