"""The OpenAPI schema, made from the table of calls and the models that it names."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from .._version import __version__
from .schemas import Errors
from .table import CALLS, Call, Who

_REF = "#/components/schemas/{model}"
_HEADER = {"type": "string", "pattern": "^[ -~]*$"}  # what HTTP itself lets through
_SAID = {
    400: "What was sent cannot be read, or breaks a rule.",
    401: "Nobody is signed in.",
    403: "Whoever asks may not do this.",
    404: "There is no such thing, or it is somebody else's.",
    405: "The address does not know this method.",
    409: "Something else is in the way.",
    412: "It was changed since it was read.",
    413: "The body is too large.",
    429: "There are too many of these.",
    503: "Not now; try again.",
}


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    """The whole schema, as JSON."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Errors, "serialization")]
    for call in CALLS:
        if call.reply:
            models.append((call.reply, "serialization"))
        if call.body:
            models.append((call.body, "validation"))
    refs, definitions = models_json_schema(models, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        paths.setdefault(f"/{call.path}", {})[call.method.lower()] = _operation(call, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Compute sessions", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization"},
            },
        },
    }


def _operation(call: Call, refs: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": call.name,
        "summary": call.says,
        "security": [] if call.who is Who.ANYBODY else [{"token": []}],
        "parameters": [*_in_path(call), *_in_headers(call), *_in_query(call)],
        "responses": {str(call.status): _answer(call, refs)},
    }
    if call.body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": refs[call.body, "validation"]}},
        }
    for status in call.all_errors:
        operation["responses"][str(status)] = {
            "description": _SAID[status],
            "content": {"application/json": {"schema": refs[Errors, "serialization"]}},
        }
    return operation


def _answer(call: Call, refs: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": call.says}
    if call.status != 204:
        rule = refs[call.reply, "serialization"] if call.reply else {}
        answer["content"] = {media: {"schema": rule} for media in call.media}
    return answer


def _in_path(call: Call) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", call.path)
    ]


def _in_headers(call: Call) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "description": says, "schema": _HEADER}
        for name, says in call.headers
    ]


def _in_query(call: Call) -> list[dict[str, Any]]:
    if call.query is None:
        return []
    made = call.query.model_json_schema(ref_template=_REF)
    known = made.get("$defs", {})
    found = []
    for name, rule in made["properties"].items():
        rule = _inlined(rule, known)
        says = rule.pop("description", "")
        rule.pop("title", None)
        entry = {"name": name, "in": "query", "required": False, "schema": rule}
        found.append({**entry, "description": says} if says else entry)
    return found


def _inlined(rule: Any, known: dict[str, Any]) -> Any:
    """A rule without references, and without the null that a query cannot say."""
    if isinstance(rule, list):
        return [_inlined(item, known) for item in rule]
    if not isinstance(rule, dict):
        return rule
    if "$ref" in rule:
        return _inlined(known[rule["$ref"].rsplit("/", 1)[-1]], known)
    rule = {key: _inlined(value, known) for key, value in rule.items()}
    if "anyOf" in rule:
        kinds = [kind for kind in rule.pop("anyOf") if kind != {"type": "null"}]
        rule.pop("default", None)
        rule = {**rule, **kinds[0]} if len(kinds) == 1 else {**rule, "anyOf": kinds}
    return rule
