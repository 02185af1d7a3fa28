"""What an environment declares of its apps."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jupyterhub_backendai.model.apps import App
from jupyterhub_backendai.model.catalog import Environment


def apps(declared: Any) -> tuple[App, ...]:
    return Environment.model_validate({"name": "r", "image": "a", "apps": declared}).apps


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ("mlflow:http:5000", [("mlflow", "http", (5000,))]),
        ("a:http:5000,b:tcp:[6001,6002]", [("a", "http", (5000,)), ("b", "tcp", (6001, 6002))]),
        (["jupyterlab", "a:vnc:5900"], [("jupyterlab", "http", ()), ("a", "vnc", (5900,))]),
        ("x:preopen:8080", [("x", "http", (8080,))]),
        ([{"name": "x", "port": 8080}], [("x", "http", (8080,))]),
        ("", []),
        (" jupyterlab,terminal ", [("jupyterlab", "http", ()), ("terminal", "http", ())]),
    ],
)
def test_the_short_form(declared: Any, found: list[Any]) -> None:
    assert [(app.name, app.protocol, app.ports) for app in apps(declared)] == found


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("a:http", "name:protocol:port"),
        ("a:http:5000 b:http:5001", "name:protocol:port"),
        ("a:http:[]", "name:protocol:port"),
        ("a:http:80", "1024"),
        ("a:http:99999", "1024"),
        ("a:http:2200", "SSH"),
        ("a:http:8888", "Jupyter"),
        ("a:pty:5000", "protocol"),
        ("a:http:5000,a:http:5001", "twice"),
        ("a:http:5000,b:http:5000", "port 5000 is of a and of b"),
        ("a:http:[5000,5000]", "port twice"),
        ("8080:http:8080", "a number"),
        ("a/b:http:5000", "pattern"),
        ([{"name": "x", "port": 8080, "ports": [8081]}], "not both"),
        ([{"name": "x", "command": ["x"]}], "needs the port"),
        ([{"name": "x", "port": 8080, "path": "../admin"}], "path"),
        ([{"name": "x", "port": 8080, "path": "a/../../admin"}], "no .."),
        ([{"name": "x", "port": 8080, "path": "//elsewhere.example.org"}], "path"),
        ([{"name": "x", "title": "\u202eevil"}], "cannot be seen"),
        ([7], "App"),
        (7, "apps"),
        ([{"name": f"a{number}"} for number in range(51)], "50"),
    ],
)
def test_what_makes_no_sense_is_told(declared: Any, told: str) -> None:
    with pytest.raises(ValidationError) as failure:
        apps(declared)
    assert told in str(failure.value)


@given(st.text(max_size=60))
def test_any_text_is_apps_or_an_error(text: str) -> None:
    try:
        found = apps(text)
    except ValidationError:
        return
    assert all(app.name for app in found)
    assert len({app.name for app in found}) == len(found)
