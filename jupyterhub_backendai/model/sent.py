"""What JSON may be sent for a value that is kept as something else, for the schema of a request.

The schema is for clients. The validators are what counts, and a test holds it to them.
"""

from __future__ import annotations

from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

_NUMBER = r"([0-9]{1,15}(\.[0-9]{1,9})?|\.[0-9]{1,9})"
_NOTHING: list[dict[str, Any]] = [{"type": "null"}, {"const": ""}]


def _amount(pattern: str, *examples: object) -> WithJsonSchema:
    text = {"type": "string", "pattern": rf"^\s*{pattern}\s*$"}
    return WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, text], "examples": list(examples)}
    )


THOUSANDTHS = _amount(_NUMBER, 2, 0.5, "0.5")
DEVICES = _amount(r"[0-9]{1,12}(\.0{1,9})?", 1, "2")
SIZE = _amount(rf"{_NUMBER}\s*([kKmMgGtTpP][iI]?)?[bB]?", "4g", "512m", 4294967296)

_ROW = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
    "additionalProperties": False,
}
ENV = WithJsonSchema(
    {
        "anyOf": [
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "array", "items": _ROW},
            *_NOTHING,
        ],
        "examples": [{"MY_VAR": "1"}, [{"name": "MY_VAR", "value": "1"}]],
    }
)
PORTS = WithJsonSchema(
    {
        "anyOf": [
            {"type": "array", "items": {"type": ["integer", "string"]}},
            {"type": "string"},
            {"type": "null"},
        ],
        "examples": [[8080, "8000:8002"], "8080, 8081"],
    }
)
MOMENT = WithJsonSchema(
    {
        "anyOf": [{"type": "string", "maxLength": 64}, {"type": "null"}],
        "examples": ["2026-12-01T09:00:00Z", "2h"],
    }
)
SPAN = WithJsonSchema(
    {
        "anyOf": [
            {"type": "string", "maxLength": 64},
            {"type": "integer", "minimum": 0},
            {"type": "null"},
        ],
        "examples": ["2h", "1d 6h", 90],
    }
)


class _Also:
    """Marks a value for which these may be sent too; the validator beside it reads them."""

    def __init__(self, *more: dict[str, Any]) -> None:
        self.more = more

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler(source)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        own = handler(schema)
        return {"anyOf": [*(own["anyOf"] if set(own) == {"anyOf"} else [own]), *self.more]}


class _NotEmpty(_Also):
    """Empty text, which is what an untouched form field sends, counts as not given."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            lambda value: None if value == "" else value, handler(source)
        )


NOT_EMPTY = _NotEmpty({"const": ""})
OR_NOTHING = _Also(*_NOTHING)
OR_TEXT = _Also({"type": "string", "pattern": r"^\s*[0-9]+\s*$"})
