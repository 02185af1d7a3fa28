"""Reshapes what the options form and links send into a spec. Judges nothing: `resolve` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..model.spec import Resources
from .form_rules import LINK_FIELDS, LINK_PREFIXES

RESOURCES = tuple(Resources.model_fields)
Form = Mapping[str, Sequence[Any]]


def _first(form: Form, name: str) -> str:
    values = form.get(name) or ()
    value = values[0] if values else ""
    return value.strip() if isinstance(value, str) else ""


def _all(form: Form, name: str) -> list[str]:
    return [value.strip() for value in form.get(name) or () if isinstance(value, str)]


def _gigabytes(text: str) -> str:
    """A plain number in the form is GB; anything with a unit stays as typed."""
    return f"{text}g" if text and text.replace(".", "", 1).isdigit() else text


def spec_from_form(form: Form) -> dict[str, Any]:
    """The JSON of a SessionSpec from form fields (lists of strings); untouched fields left out."""
    environment = _first(form, "environment")
    spec: dict[str, Any] = {
        "type": _first(form, "type"),
        "name": _first(form, "name"),
        "project": _first(form, "project"),
        "environment": environment,
        "version": _first(form, f"version.{environment}") or _first(form, "version"),
        "image": _first(form, "image"),
        "resource_group": _first(form, "resource_group"),
        "agent": _first(form, "agent"),
        "preset": _first(form, "preset"),
        "preopen_ports": _first(form, "ports"),
        "count": _first(form, "count"),
        "priority": _first(form, "priority"),
        "owner": _first(form, "owner"),
        "batch": _batch(form),
        "depends_on": _earlier(form),
    }
    spec = {key: value for key, value in spec.items() if value}
    if spec.get("image"):
        spec.pop("environment", None)
        spec.pop("version", None)
    resources = {name: _first(form, name) for name in RESOURCES}
    for name in ("mem", "shm"):
        resources[name] = _gigabytes(resources[name])
    spec["resources"] = {key: value for key, value in resources.items() if value}
    threads = {"omp": _first(form, "omp"), "openblas": _first(form, "openblas")}
    spec["threads"] = {key: value for key, value in threads.items() if value}
    spec["env"] = _variables(form)
    spec["mounts"] = _mounts(form)
    return {key: value for key, value in spec.items() if value}


def _batch(form: Form) -> dict[str, str]:
    """What only a batch session has. A bare number is in the unit beside it."""
    command = _first(form, "command").replace("\r\n", "\n")  # as a browser sends it
    timeout, unit = _first(form, "timeout"), _first(form, "timeout_unit")
    if timeout.replace(".", "", 1).isdigit():
        timeout += unit
    batch = {"command": command, "starts_at": _first(form, "starts_at"), "timeout": timeout}
    return {key: value for key, value in batch.items() if value}


def _earlier(form: Form) -> list[str]:
    """Sessions to wait for: those that were ticked, and names or ids that were typed."""
    typed = _first(form, "depends_on_names").replace(",", " ").split()
    return [*filter(None, _all(form, "depends_on")), *typed]


def _variables(form: Form) -> list[dict[str, str]]:
    names = _all(form, "env_name")
    values = [v for v in form.get("env_value") or () if isinstance(v, str)]
    values += [""] * (len(names) - len(values))
    rows = zip(names, values, strict=False)
    return [{"name": name, "value": value} for name, value in rows if name or value]


def _mounts(form: Form) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = []
    for field in ("mount", "new_folder"):
        for folder in filter(None, _all(form, field)):
            mount: dict[str, Any] = {"folder": folder}
            if path := _first(form, f"mount_path.{folder}"):
                mount["path"] = path
            if permission := _first(form, f"mount_permission.{folder}"):
                mount["permission"] = permission
            if field == "new_folder":
                mount["create"] = True
            mounts.append(mount)
    return mounts


def in_a_link(query: Form) -> dict[str, list[Any]]:
    """The fields of a link that are allowed in one; what else is in it is left out."""
    return {
        name: list(values)
        for name, values in query.items()
        if name in LINK_FIELDS or name.startswith(LINK_PREFIXES)
    }


def form_from_link(query: Form) -> dict[str, list[Any]]:
    """The fields of a link that are allowed in one. Raises KeyError with the first that is not."""
    allowed = in_a_link(query)
    for name in query:
        if name not in allowed:
            raise KeyError(name)
    return allowed


def quick_start(form: Form, stored: Any) -> dict[str, Any] | None:
    """What a quick start asks for: `stored`, which this server had last, or the defaults, with the
    folder that was named for it. None where the form asks for what is in its fields."""
    quick = _first(form, "quick")
    if quick not in {"last", "default"}:
        return None
    spec = start_again(stored) if quick == "last" else {}
    if folder := _first(form, "quick_folder"):
        mounts = spec.get("mounts")
        new = {"folder": folder, "create": True}
        spec["mounts"] = [*(mounts if isinstance(mounts, list) else []), new]
    return spec


def start_again(options: Any) -> dict[str, Any]:
    """The last options of a server for another start: less the name, which may be taken by now."""
    if not isinstance(options, dict):
        return {}
    return {key: value for key, value in options.items() if key != "name"}
