"""SessionSpec: what a user asks for, the same JSON through every door, and how it is read.

Reading checks shapes and single values; `resolve.py` checks the whole against catalog and policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    field_validator,
)
from pydantic_core import PydanticCustomError

from .catalog import Bytes, Cpu, Devices, Fgpu
from .errors import FieldError, Problem, shown
from .moments import check_moment, parse_span
from .rules import (
    MAX_THREADS,
    check_env_name,
    check_image,
    check_session_name,
    check_text,
    expand_ports,
)
from .sent import ENV, MOMENT, NOT_EMPTY, OR_NOTHING, OR_TEXT, PORTS, SPAN
from .sizes import MAX_ERRORS, shown_key, size_error, unusable

MAX_ENV_VALUE = 32 * 1024  # bytes; the kernel takes four times as much in one string
MAX_ENV = 256 * 1024  # bytes of all values; with the Hub's own they must fit an exec call
MAX_MOUNTS = 100
MAX_PORTS = MAX_VARIABLES = MAX_DEPENDENCIES = 100
MAX_COUNT = 100  # sessions of one request
MAX_COMMAND = 32 * 1024  # characters; what is longer belongs in a file


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


def _not_bool(value: object) -> object:
    """JSON's true is no number, though Python would count it as 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Write a whole number.")
    return value


def _span(value: Any) -> object:
    """A length of time in seconds; none, or 0, is no bound."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and 0 <= value < 10**9 and value == int(value):
        value = str(int(value))
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise PydanticCustomError("not_text", "Write a length of time such as 2h.")
    try:
        return parse_span(value) or None
    except Problem as problem:
        raise _custom(problem) from None


Whole = Annotated[int, BeforeValidator(_not_bool), OR_TEXT]
# The bound is on the text inside: on the optional whole it would be applied to None too.
Text = Annotated[Annotated[str, Field(max_length=255)] | None, NOT_EMPTY]
Profile = Annotated[Annotated[str, Field(max_length=64)] | None, NOT_EMPTY]
Name = Annotated[str | None, _by(check_session_name)]
Image = Annotated[str | None, _by(check_image)]
Start = Annotated[str | None, _by(check_moment), MOMENT]
Span = Annotated[int | None, BeforeValidator(_span), SPAN]
Reference = Annotated[str, Field(min_length=1, max_length=64)]
References = Annotated[tuple[Reference, ...], Field(max_length=MAX_DEPENDENCIES)]
Threads = Annotated[Annotated[Whole, Field(ge=1, le=MAX_THREADS)] | None, NOT_EMPTY]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Resources(_Part):
    """Amounts that override single slots of the preset: cores, bytes, bytes; and of GPUs one kind:
    shares, whole GPUs, or MIG devices of a profile. One kind takes the place of the preset's."""

    cpu: Annotated[Cpu | None, NOT_EMPTY] = None
    mem: Annotated[Bytes | None, NOT_EMPTY] = None
    shm: Annotated[Bytes | None, NOT_EMPTY] = None
    fgpu: Annotated[Fgpu | None, NOT_EMPTY] = None
    gpu: Annotated[Devices | None, NOT_EMPTY] = None
    mig: Annotated[Devices | None, NOT_EMPTY] = None
    mig_profile: Profile = None


class Cluster(_Part):
    """How many containers a session has, and whether they may be on several agents."""

    mode: Literal["single-node", "multi-node"] = "single-node"
    size: Whole = Field(default=1, ge=1, le=1000)


class ThreadCounts(_Part):
    """Threads of numerical libraries; None follows the cores."""

    omp: Threads = None
    openblas: Threads = None


class Mount(_Part):
    """A folder to mount: where (None: under its own name in the home), and read-only or not
    (None: as the folder allows).

    `create` makes a folder of the user's own by that name first, unless it is there already.
    """

    folder: str = Field(min_length=1, max_length=320)  # a group's name, a slash, a folder's
    path: Text = None
    permission: Annotated[Literal["ro", "rw"] | None, NOT_EMPTY] = None
    create: StrictBool = False


# Stands for a mount with an error of its own, so that the others keep their places in the list.
UNREADABLE_MOUNT = Mount.model_construct(folder="", path=None, permission="ro", create=False)


class Batch(_Part):
    """The command of a batch session, when it may start at the earliest (a time with its zone, or
    how long from now), how long it may take (with its unit; read as seconds, None is no bound)."""

    command: Annotated[Annotated[str, Field(max_length=MAX_COMMAND)] | None, NOT_EMPTY] = None
    starts_at: Start = None
    timeout: Span = None


class SessionSpec(_Part):
    """What a user asks for. Every key is optional; `{}` is the admin's default session."""

    name: Name = None
    type: Annotated[Literal["interactive", "batch"], OR_NOTHING] = "interactive"
    environment: Text = None
    version: Text = None
    image: Image = None
    env: Annotated[dict[str, str], ENV] = Field(default={}, max_length=MAX_VARIABLES)
    resource_group: Text = None
    agent: Annotated[str, Field(max_length=255), OR_NOTHING] = "auto"
    preset: Text = None
    resources: Annotated[Resources, OR_NOTHING] = Resources()
    count: Annotated[Annotated[Whole, Field(ge=1, le=MAX_COUNT)], OR_NOTHING] = 1
    cluster: Annotated[Cluster, OR_NOTHING] = Cluster()
    threads: Annotated[ThreadCounts, OR_NOTHING] = ThreadCounts()
    mounts: Annotated[tuple[Mount, ...], Field(max_length=MAX_MOUNTS), OR_NOTHING] = ()
    preopen_ports: Annotated[tuple[int, ...], PORTS] = ()
    batch: Annotated[Batch | None, NOT_EMPTY] = None
    depends_on: Annotated[References, OR_NOTHING] = ()
    priority: Annotated[Annotated[Whole, Field(ge=0, le=100)] | None, NOT_EMPTY] = None
    owner: Text = None
    project: Text = None

    @field_validator(
        "type", "env", "agent", "resources", "count", "cluster", "threads", "mounts",
        "preopen_ports", "depends_on", mode="before",
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
    "finite_number": "Write a whole number.",
    "bool_type": "Write true or false.",
}


def _message(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if "message" in context:
        return str(context["message"])  # of a rule of ours, whose codes may be like pydantic's
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
    return shown(error["msg"], 200)


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
        rows = [(f"env.{shown_key(name)}", name, value) for name, value in raw.items()]
    else:
        for index, row in enumerate(raw):
            if not isinstance(row, dict) or set(row) - {"name", "value"}:
                errors.append(FieldError(f"env.{index}", "bad_row", "Write a name and a value."))
                continue
            if row.get("name") or row.get("value"):
                rows.append((f"env.{index}", row.get("name"), row.get("value", "")))
    found: dict[str, str] = {}
    for field, name, value in rows[:MAX_VARIABLES]:
        try:
            if not isinstance(name, str) or not isinstance(value, str):
                raise Problem("not_text", "Write the name and the value as text.")
            check_env_name(name)
            if name in found:
                raise Problem("duplicate", f"{name} is there twice. Remove one.")
            if len(check_text(value).encode()) > MAX_ENV_VALUE:
                raise Problem("too_long", f"A value has at most {MAX_ENV_VALUE} bytes.")
            found[name] = value
        except Problem as problem:
            errors.append(problem.at(field))
    if sum(len(value.encode()) for value in found.values()) > MAX_ENV:
        message = f"All values together have at most {MAX_ENV} bytes."
        errors.append(FieldError("env", "too_long", message))
    if len(rows) > MAX_VARIABLES:
        message = f"There can be at most {MAX_VARIABLES} variables."
        errors.append(FieldError("env", "too_many", message))
    return found


def _read_ports(raw: Any, errors: list[FieldError]) -> list[int]:
    """Ports from a list, or from text with commas or spaces; ranges as `8000:8002`."""
    if isinstance(raw, str):
        raw = raw.replace(",", " ").split()
    if not isinstance(raw, (list, tuple)):
        errors.append(FieldError("preopen_ports", "list_type", "Write the ports as a list."))
        return []
    ports: list[int] = []
    seen: set[int] = set()
    for index, token in enumerate(raw):
        if len(ports) > MAX_PORTS or len(errors) >= MAX_ERRORS:
            break
        try:
            for port in expand_ports(token):
                if port in seen:
                    raise Problem("duplicate", f"Port {port} is there twice. Remove one.")
                seen.add(port)
                ports.append(port)
        except Problem as problem:
            errors.append(problem.at(f"preopen_ports.{index}"))
    if len(ports) > MAX_PORTS:
        message = f"There can be at most {MAX_PORTS} ports."
        errors.append(FieldError("preopen_ports", "too_many", message))
        return []
    return ports


def read_spec(options: object) -> tuple[SessionSpec, list[FieldError]]:
    """Options of any origin as a spec, with every error found. Never raises.

    What has an error has its default in the returned spec (a mount: `UNREADABLE_MOUNT`), so that
    the rules on the rest can still be checked and all errors be told at once.
    """
    if not isinstance(options, Mapping):
        return SessionSpec(), [FieldError("", "not_an_object", "Write the options as an object.")]
    if (too_large := size_error(options)) is not None:
        return SessionSpec(), [too_large]
    errors: list[FieldError] = []
    usable: dict[str, Any] = {}
    for key, value in options.items():
        before = len(errors)
        if before >= MAX_ERRORS:
            break  # enough is wrong; what was not looked at is not used
        unusable({key: value}, "", 0, errors)
        if len(errors) == before:
            usable[key] = value
    data = _tidy(usable, errors)
    try:
        return SessionSpec.model_validate(data), errors
    except ValidationError as failure:
        found = failure.errors(include_url=False, include_input=False)
        for error in found[: max(0, MAX_ERRORS - len(errors))]:
            field = ".".join(shown_key(step) for step in error["loc"])
            errors.append(FieldError(field, str(error["type"]), _message(error)))
        return SessionSpec.model_validate(_without(data, [e["loc"] for e in found])), errors


def _without(data: Mapping[str, Any], places: Iterable[tuple[int | str, ...]]) -> dict[str, Any]:
    """The same data less what is wrong at these places, and as little else as can be."""
    kept = dict(data)
    for place in places:
        head, inner = place[0], place[1] if len(place) > 1 else None
        part = kept.get(str(head))
        if isinstance(part, dict) and inner is not None and head != "env":
            kept[str(head)] = {key: value for key, value in part.items() if key != inner}
        elif head == "mounts" and isinstance(part, (list, tuple)) and isinstance(inner, int):
            mounts = list(part) if len(part) <= MAX_MOUNTS else []
            if inner < len(mounts):
                mounts[inner] = UNREADABLE_MOUNT
            kept["mounts"] = mounts
        else:
            kept.pop(str(head), None)
    return kept


def references(options: object) -> tuple[str, ...]:
    """Sessions that options name in `depends_on`, for whoever looks them up before `resolve`."""
    if not isinstance(options, Mapping) or not options.get("depends_on"):
        return ()
    return read_spec({"depends_on": options["depends_on"]})[0].depends_on
