"""How much a request may be, and of what: checked before anything reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import FieldError, Problem, shown
from .rules import check_text

MAX_PARTS = 20_000  # values in all of the options, or of a form with thousands of folders
MAX_TEXT = 512 * 1024  # characters in all of them; the longest legal ones have about half
MAX_DEPTH = 8  # levels of nesting; the deepest legal spec has four
MAX_ITEMS = 1000  # of one object or list; the longest legal one has a hundred
MAX_INNER_ITEMS = 100  # of one inside another; the longest legal one has four
MAX_ERRORS = 100  # told at once; whoever makes more does not read them


def size_error(options: object) -> FieldError | None:
    """What is wrong where options are more than anybody needs, told without reading them all.

    Options come in from anywhere and are read on the Hub's event loop, so this comes first, and
    costs some milliseconds whatever they are.
    """
    parts, text, left = 0, 0, [(options, "", 0)]
    while left:
        value, field, depth = left.pop()
        if depth > MAX_DEPTH:
            return FieldError(field, "too_deep", "This is nested too deeply.")
        if isinstance(value, (str, bytes)):
            text += len(value)
        elif isinstance(value, (Mapping, list, tuple)):
            parts += len(value)
            # Before its items are looked at: there may be millions of them.
            if parts > MAX_PARTS:
                return FieldError(field, "too_long", "This is too long. Leave some of it out.")
            named = isinstance(value, Mapping)
            for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
                text += len(key) if isinstance(key, str) else 0
                # The setting's own name is enough to find it by.
                left.append((item, field or (shown_key(key) if named else ""), depth + 1))
        if text > MAX_TEXT:
            return FieldError(field, "too_long", "This is too long. Leave some of it out.")
    return None


def unusable(value: Any, path: str, depth: int, errors: list[FieldError]) -> None:
    """What is no JSON, too deep or too long, and text that could be neither stored nor passed on.

    After this nothing in `value` can surprise the code that reads it.
    """
    if len(errors) >= MAX_ERRORS:
        return
    if depth > MAX_DEPTH:
        errors.append(FieldError(path, "too_deep", "This is nested too deeply."))
    elif isinstance(value, str):
        try:
            check_text(value)
        except Problem as problem:
            errors.append(problem.at(path))
    elif isinstance(value, (dict, list, tuple)):
        most = MAX_ITEMS if depth < 2 else MAX_INNER_ITEMS
        if len(value) > most:
            message = f"There can be at most {most} of these."
            errors.append(FieldError(path, "too_long", message))
        elif isinstance(value, dict):
            for key, item in value.items():
                step = f"{path}.{shown_key(key)}".lstrip(".")
                if not isinstance(key, str):
                    errors.append(FieldError(path, "not_text", "Names of settings are text."))
                    continue
                unusable(key, path, depth + 1, errors)
                unusable(item, step, depth + 1, errors)
        else:
            for index, item in enumerate(value):
                unusable(item, f"{path}.{index}", depth + 1, errors)
    elif not (value is None or isinstance(value, (bool, int, float))):
        errors.append(FieldError(path, "not_json", "Write this as JSON."))


def shown_key(key: object) -> str:
    """A key that somebody else chose, fit to be part of a field's name in an error."""
    text = key if isinstance(key, (str, int)) and not _is_huge(key) else type(key).__name__
    return shown(str(text).encode("ascii", "replace").decode(), 64).replace("…", "...")


def _is_huge(key: str | int) -> bool:
    return isinstance(key, int) and abs(key) > 10**18
