"""The schema of a request says what may be sent: all that the parser takes, and no other type."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from jupyterhub_backendai.model.spec import SessionSpec, read_spec

SCHEMA = SessionSpec.model_json_schema()
VALIDATOR = Draft202012Validator(SCHEMA)

FIELDS = [
    *SessionSpec.model_fields,
    "resources.cpu", "resources.mem", "resources.shm", "resources.fgpu", "resources.gpu",
    "resources.mig", "resources.mig_profile", "resources.tpu",
    "cluster.mode", "cluster.size", "threads.omp", "threads.openblas",
    "mounts.folder", "mounts.path", "mounts.permission", "mounts.create",
    "batch.command", "batch.starts_at", "batch.timeout", "env.VALUE", "other",
]  # fmt: skip
VALUES: list[Any] = [
    None, "", "text", "auto", "ro", "2", "0.5", ".5", " 4 ", "4g", "4GiB", "1.5t", "512 MB", "-1",
    "8000:8002", "2026-12-01T09:00:00Z", 0, 1, 2, 8080, 4096, 101, 0.5, 1.0, -1, True, False,
    [], [8080], ["8000:8002"], [True], [0.5], [None], [{"folder": "data"}],
    [{"name": "A", "value": "1"}], [{"name": "A", "value": 1}],
    {}, {"A": "1"}, {"A": 1}, {"cpu": "2"}, {"omp": "1"}, {"size": 1},
]  # fmt: skip
# What the parser says of a value whose type is none that it takes.
WRONG_TYPE = {
    "not_text", "string_type", "int_type", "int_from_float", "bool_type", "dict_type", "model_type",
    "model_attributes_type", "list_type", "tuple_type", "extra_forbidden", "literal_error",
    "bad_row", "datetime_type",
}  # fmt: skip


def request(field: str, value: Any) -> dict[str, Any]:
    part, _, key = field.partition(".")
    if not key:
        return {field: value}
    if part == "mounts":
        return {"mounts": [{"folder": "data", key: value}]}
    return {part: {key: value}}


@pytest.mark.parametrize("field", FIELDS)
def test_what_the_parser_takes_is_in_the_schema_and_what_it_refuses_by_type_is_not(
    field: str,
) -> None:
    for value in VALUES:
        options = request(field, value)
        codes = {error.code for error in read_spec(options)[1]}
        wrong = [error.message for error in VALIDATOR.iter_errors(options)]
        if not codes:
            assert not wrong, options
        elif codes & WRONG_TYPE:
            assert wrong, (options, codes)


def test_amounts_are_as_people_write_them() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    for amounts in ({"cpu": 0.5, "mem": "4g", "fgpu": "0.5"}, {"mem": 2**32, "shm": "512 MB"}):
        VALIDATOR.validate({"resources": amounts})
    for amounts in ({"cpu": "4g"}, {"mem": "four"}, {"mem": -1}, {"fgpu": True}, {"mem": [1]}):
        assert not VALIDATOR.is_valid({"resources": amounts}), amounts
