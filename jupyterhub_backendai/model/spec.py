"""SessionSpec: what a user asks for, the same JSON through every door, and how it is read.

Reading checks shapes and single values; `resolve.py` checks the whole against catalog and policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)
from pydantic_core import PydanticCustomError

from .catalog import Bytes, Cpu, Fgpu
from .errors import FieldError, Problem
from .rules import check_env_name, check_image, check_session_name, check_text, expand_ports

MAX_ENV_VALUE = 32 * 1024  # characters; the whole environment must fit an exec call
MAX_DEPTH = 8  # levels of nesting; the deepest legal spec has four


def _by(check: Any) -> BeforeValidator:
    """A validator for a text field; empty text counts as not given."""

    def run(value: object) -> object:
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise PydanticCustomError("not_text", "Write this as text.")
        try:
            return check(value)
        except Problem as problem:
            raise _custom(problem) from None

    return BeforeValidator(run)


def _custom(problem: Problem) -> PydanticCustomError:
    return PydanticCustomError(problem.code, "{message}", {"message": problem.message})


def _emptied(value: object) -> object:
    """Empty text, which is what an untouched form field sends, as not given."""
    return None if value == "" else value


NotEmpty = BeforeValidator(_emptied)
Text = Annotated[str | None, NotEmpty, Field(max_length=255)]
Name = Annotated[str | None, _by(check_session_name)]
Image = Annotated[str | None, _by(check_image)]
Threads = Annotated[int | None, NotEmpty, Field(ge=1, le=1000)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(_Part):
    """Amounts that override single slots of the preset: cores, bytes, bytes, shares."""

    cpu: Annotated[Cpu | None, NotEmpty] = None
    mem: Annotated[Bytes | None, NotEmpty] = None
    shm: Annotated[Bytes | None, NotEmpty] = None
    fgpu: Annotated[Fgpu | None, NotEmpty] = None


class Cluster(_Part):
    """How many containers a session has, and whether they may be on several agents."""

    mode: Literal["single-node", "multi-node"] = "single-node"
    size: int = Field(default=1, ge=1, le=1000)


class ThreadCounts(_Part):
    """Threads of numerical libraries; None follows the cores."""

    omp: Threads = None
    openblas: Threads = None


class Mount(_Part):
    """A folder to mount: where (None: under its own name in the home), and read-only or not.

    `create` makes a folder of the user's own by that name first, unless it is there already.
    """

    folder: str = Field(min_length=1, max_length=129)
    path: Annotated[str | None, NotEmpty, Field(max_length=255)] = None
    permission: Literal["ro", "rw"] = "rw"
    create: bool = False


class Batch(_Part):
    """The command of a batch session, when it may start at the earliest, how long it may take."""

    command: Text = None
    starts_at: Annotated[AwareDatetime | None, NotEmpty] = None
    timeout: Text = None


class SessionSpec(_Part):
    """What a user asks for. Every key is optional; `{}` is the admin's default session."""

    name: Name = None
    type: Literal["interactive", "batch"] = "interactive"
    environment: Text = None
    version: Text = None
    image: Image = None
    env: dict[str, str] = Field(default={}, max_length=100)
    resource_group: Text = None
    agent: Annotated[str, Field(max_length=255)] = "auto"
    preset: Text = None
    resources: Resources = Resources()
    count: int = Field(default=1, ge=1, le=100)
    cluster: Cluster = Cluster()
    threads: ThreadCounts = ThreadCounts()
    mounts: tuple[Mount, ...] = Field(default=(), max_length=100)
    preopen_ports: tuple[int, ...] = ()
    batch: Batch | None = None
    owner: Text = None
    project: Text = None

    @field_validator(
        "type", "env", "agent", "resources", "count", "cluster", "threads", "mounts",
        "preopen_ports", mode="before",
    )  # fmt: skip
    @classmethod
    def _null_is_default(cls, value: object, info: Any) -> object:
        if value is None or value == "":
            return cls.model_fields[info.field_name].get_default()
        return value


_MESSAGES = {
    "extra_forbidden": "There is no such setting. Remove it.",
    "missing": "This is needed.",
    "dict_type": "Write this as an object.",
    "model_type": "Write this as an object.",
    "model_attributes_type": "Write this as an object.",
    "list_type": "Write this as a list.",
    "tuple_type": "Write this as a list.",
    "string_type": "Write this as text.",
    "int_type": "Write a whole number.",
    "int_parsing": "Write a whole number.",
    "int_parsing_size": "This number is far too large.",
    "int_from_float": "Write a whole number.",
    "timezone_aware": "Write the time with its zone, such as 2026-12-01T09:00:00Z.",
}


def _message(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _MESSAGES:
        return _MESSAGES[kind]
    if kind == "literal_error":
        return f"Choose one of: {context['expected']}."
    if kind == "greater_than_equal":
        return f"This is at least {context['ge']}."
    if kind == "less_than_equal":
        return f"This is at most {context['le']}."
    if kind == "string_too_long":
        return f"This has at most {context['max_length']} characters."
    if kind == "too_long":
        return f"There can be at most {context['max_length']} of these."
    if kind == "string_too_short":
        return "This is needed."
    if kind.startswith(("datetime", "date_")):
        return "Write a time such as 2026-12-01T09:00:00Z."
    if "message" in context:
        return str(context["message"])
    return str(error["msg"])[:200]


def _tidy(options: Mapping[str, Any], errors: list[FieldError]) -> dict[str, Any]:
    """Options with `env` and `preopen_ports` in their one form; their errors are appended."""
    data = dict(options)
    if isinstance(data.get("env"), (dict, list, tuple)):
        data["env"] = _read_env(data["env"], errors)
    if data.get("preopen_ports") not in (None, ""):
        data["preopen_ports"] = _read_ports(data["preopen_ports"], errors)
    return data


def _read_env(raw: Any, errors: list[FieldError]) -> dict[str, str]:
    """Variables from an object, or from rows of name and value (the form; duplicates show)."""
    rows: list[tuple[str, Any, Any]] = []
    if isinstance(raw, dict):
        rows = [(f"env.{str(name)[:64]}", name, value) for name, value in raw.items()]
    else:
        for index, row in enumerate(raw):
            if not isinstance(row, dict) or set(row) - {"name", "value"}:
                errors.append(FieldError(f"env.{index}", "bad_row", "Write a name and a value."))
                continue
            if row.get("name") or row.get("value"):
                rows.append((f"env.{index}", row.get("name"), row.get("value", "")))
    found: dict[str, str] = {}
    for field, name, value in rows[:101]:
        try:
            if not isinstance(name, str) or not isinstance(value, str):
                raise Problem("not_text", "Write the name and the value as text.")
            check_env_name(name)
            if name in found:
                raise Problem("duplicate", f"{name} is there twice. Remove one.")
            if len(check_text(value)) > MAX_ENV_VALUE:
                raise Problem("too_long", f"A value has at most {MAX_ENV_VALUE} characters.")
            found[name] = value
        except Problem as problem:
            errors.append(problem.at(field))
    if len(rows) > 100:
        errors.append(FieldError("env", "too_many", "There can be at most 100 variables."))
    return found


def _read_ports(raw: Any, errors: list[FieldError]) -> list[int]:
    """Ports from a list, or from text with commas or spaces; ranges as `8000:8002`."""
    if isinstance(raw, str):
        raw = raw.replace(",", " ").split()
    if not isinstance(raw, (list, tuple)):
        errors.append(FieldError("preopen_ports", "list_type", "Write the ports as a list."))
        return []
    ports: list[int] = []
    for index, token in enumerate(raw[:1000]):
        try:
            for port in expand_ports(token):
                if port in ports:
                    raise Problem("duplicate", f"Port {port} is there twice. Remove one.")
                ports.append(port)
        except Problem as problem:
            errors.append(problem.at(f"preopen_ports.{index}"))
    return ports


def _unusable(value: Any, path: str, depth: int, errors: list[FieldError]) -> None:
    """Text anywhere in `value` that could be neither stored nor passed on, and deep nesting."""
    if depth > MAX_DEPTH:
        errors.append(FieldError(path, "too_deep", "This is nested too deeply."))
    elif isinstance(value, str):
        try:
            check_text(value)
        except Problem as problem:
            errors.append(problem.at(path))
    elif isinstance(value, dict):
        for key, item in list(value.items())[:1000]:
            _unusable(str(key), path, depth + 1, errors)
            _unusable(item, f"{path}.{_shown(key)}".lstrip("."), depth + 1, errors)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value[:1000]):
            _unusable(item, f"{path}.{index}", depth + 1, errors)


def _shown(key: object) -> str:
    """A key that somebody else chose, fit to be the name of a field in an error."""
    return str(key).encode("ascii", "replace").decode()[:64]


def read_spec(options: object) -> tuple[SessionSpec, list[FieldError]]:
    """Options of any origin as a spec, with every error found. Never raises.

    Fields with an error have their default in the returned spec, so that the rules on the other
    fields can still be checked and all errors be told at once.
    """
    if not isinstance(options, Mapping):
        return SessionSpec(), [FieldError("", "not_an_object", "Write the options as an object.")]
    errors: list[FieldError] = []
    _unusable(dict(options), "", 0, errors)
    if errors:
        return SessionSpec(), errors
    data = _tidy(options, errors)
    try:
        return SessionSpec.model_validate(data), errors
    except ValidationError as failure:
        bad: set[Any] = set()
        for error in failure.errors(include_url=False, include_input=False):
            location = error["loc"]
            bad.add(location[0] if location else None)
            field = ".".join(_shown(step) for step in location)
            errors.append(FieldError(field, str(error["type"]), _message(error)))
        kept = {key: value for key, value in data.items() if key not in bad}
        return SessionSpec.model_validate(kept), errors
