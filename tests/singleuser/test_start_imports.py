"""What keeps a server's start short changes nothing but when things are imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

IMPORTS = Path(str(files("jupyterhub_backendai.singleuser") / "imports"))


def in_a_server(code: str, **environment: str) -> Any:
    """Runs `code` as a session's server would be run; what it leaves in `result`."""
    script = textwrap.dedent(code) + "\nimport json\nprint(json.dumps(result))"
    path = os.pathsep.join(filter(None, [str(IMPORTS), environment.pop("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", script],
        env={**os.environ, **environment, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_server_starts_without_what_only_a_hub_uses() -> None:
    loaded = in_a_server(
        """
        import sys
        import jupyterhub.singleuser
        import jupyterhub.singleuser.extension
        names = ("sqlalchemy", "alembic", "jupyterhub.orm", "jupyterhub.handlers")
        result = [name for name in names if name in sys.modules]
        """
    )
    assert loaded == []


def test_switched_off_everything_is_imported_as_usual() -> None:
    loaded = in_a_server(
        """
        import sys
        import jupyterhub.singleuser
        names = ("sqlalchemy", "jupyterhub.orm", "jupyterhub.handlers")
        result = [name for name in names if name in sys.modules]
        """,
        BACKENDAI_FAST_START="0",
    )
    assert loaded == ["sqlalchemy", "jupyterhub.orm", "jupyterhub.handlers"]


@pytest.mark.parametrize("module", ["jupyterhub", "rfc3987_syntax"])
def test_programs_that_a_server_starts_know_nothing_of_it(module: str) -> None:
    result = in_a_server(
        f"""
        import os, subprocess, sys
        import {module}
        code = "import sys; print(sys.path)"
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        result = [os.environ.get("PYTHONPATH"), sys.path, child.stdout]
        """,
        PYTHONPATH="/somewhere",
    )
    variable, own, childs = result
    assert variable == "/somewhere"
    assert str(IMPORTS) not in own
    assert str(IMPORTS) not in childs
    assert "/somewhere" in childs


def test_jupyterhub_is_the_real_package() -> None:
    file, path, spec, version = in_a_server(
        """
        import jupyterhub
        spec = jupyterhub.__spec__
        result = [jupyterhub.__file__, jupyterhub.__path__, spec.origin, jupyterhub.__version__]
        """
    )
    import jupyterhub

    assert (file, path, spec) == (jupyterhub.__file__, jupyterhub.__path__, jupyterhub.__file__)
    assert version == jupyterhub.__version__


# Each is what some code could do first after a server was imported, or while it is.
USES = {
    "the name of a function": "jupyterhub.roles.func.count; import sqlalchemy",
    "the database classes": "jupyterhub.scopes.orm.User.name",
    "a module by its short name": "jupyterhub.scopes.sa.inspect",
    "a module below": "from sqlalchemy.orm import Session",
    "the package": "import sqlalchemy",
    "the Hub's pages": "from jupyterhub.handlers.pages import HealthCheckHandler",
    "the Hub": "import jupyterhub.app",
}


@pytest.mark.parametrize("use", USES.values(), ids=list(USES))
def test_what_is_used_is_real_and_there_once(use: str) -> None:
    """Whatever comes first, in the end all is as after plain imports."""
    result = in_a_server(
        f"""
        import sys
        import jupyterhub.singleuser, jupyterhub.log, jupyterhub.roles, jupyterhub.utils
        {use}
        import sqlalchemy, sqlalchemy.exc, sqlalchemy.orm
        import jupyterhub.app, jupyterhub.handlers.pages, jupyterhub.orm
        result = {{
            "func": jupyterhub.roles.func is sqlalchemy.func,
            "error": jupyterhub.utils.SQLAlchemyError is sqlalchemy.exc.SQLAlchemyError,
            "health": jupyterhub.log.HealthCheckHandler
            is jupyterhub.handlers.pages.HealthCheckHandler,
            "orm": jupyterhub.scopes.orm.User is jupyterhub.orm.User,
            "one": sys.modules["sqlalchemy.exc"] is sqlalchemy.exc is sqlalchemy.orm.exc.sa_exc,
            "file": [sqlalchemy.__file__, sqlalchemy.__spec__.origin],
            "loader": type(sqlalchemy.__loader__).__name__,
        }}
        """
    )
    import sqlalchemy

    assert result.pop("file") == [sqlalchemy.__file__, sqlalchemy.__file__]
    assert result.pop("loader") == "SourceFileLoader"
    assert result == dict.fromkeys(result, True)


def test_used_while_a_server_is_imported() -> None:
    """What an unknown version might do in its modules gets the real thing."""
    result = in_a_server(
        """
        import sys
        import jupyterhub

        class Early:
            # Stands for code of `jupyterhub.singleuser` that runs while it is imported.
            def find_spec(self, name, path=None, target=None):
                if name == "jupyterhub.singleuser.mixins":
                    exec(code, space)

        code = '''
        from sqlalchemy.exc import SQLAlchemyError
        class Mine(SQLAlchemyError):
            pass
        import sqlalchemy.sql
        from sqlalchemy.sql import select
        import sqlalchemy.exc
        '''
        code = "\\n".join(line.strip() if "pass" not in line else "    pass"
                         for line in code.splitlines())
        space = {}
        sys.meta_path.insert(0, Early())
        import jupyterhub.singleuser
        import sqlalchemy
        import jupyterhub.utils
        result = [
            issubclass(space["Mine"], sqlalchemy.exc.SQLAlchemyError),
            space["select"] is sqlalchemy.select,
            space["sqlalchemy"] is sqlalchemy,
            jupyterhub.utils.SQLAlchemyError is sqlalchemy.exc.SQLAlchemyError,
        ]
        """
    )
    assert result == [True] * 4


def test_the_class_that_the_log_asks_for_works_before_and_after() -> None:
    """`isinstance` in `jupyterhub.log` is what the pages are imported for."""
    result = in_a_server(
        """
        import jupyterhub.singleuser, jupyterhub.log
        from tornado.web import RequestHandler, StaticFileHandler

        standing = jupyterhub.log.HealthCheckHandler
        other = RequestHandler.__new__(RequestHandler)
        static = StaticFileHandler.__new__(StaticFileHandler)
        both = (StaticFileHandler, standing)
        result = [isinstance(other, both), isinstance(static, both)]

        from jupyterhub.handlers.pages import HealthCheckHandler

        health = HealthCheckHandler.__new__(HealthCheckHandler)
        result += [isinstance(health, standing), issubclass(HealthCheckHandler, standing)]
        result += [isinstance(other, standing), jupyterhub.log.HealthCheckHandler is standing]
        """
    )
    assert result == [False, True, True, True, False, False]


@pytest.mark.skipif(sys.version_info < (3, 10), reason="the Hub of today writes it so")
def test_the_class_that_the_log_asks_for_may_be_in_a_union() -> None:
    result = in_a_server(
        """
        import jupyterhub.singleuser, jupyterhub.log
        from tornado.web import StaticFileHandler

        union = StaticFileHandler | jupyterhub.log.HealthCheckHandler
        static = StaticFileHandler.__new__(StaticFileHandler)
        result = [isinstance(static, union), isinstance(3, union)]
        """
    )
    assert result == [True, False]


def test_without_jupyterhub_the_import_fails_as_usual() -> None:
    result = in_a_server(
        """
        import sys
        sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry]
        sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in str(f)]
        try:
            import jupyterhub
        except ModuleNotFoundError as error:
            result = [error.name, "jupyterhub" in sys.modules, len(sys.meta_path)]
        """
    )
    assert result[:2] == ["jupyterhub", False]


def test_iri_formats_are_checked_by_the_real_package() -> None:
    pytest.importorskip("rfc3987_syntax")
    good, bad = in_a_server(
        """
        import jupyterhub.singleuser
        import jsonschema
        checker = jsonschema.Draft202012Validator(
            {"format": "iri"}, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
        )
        result = [checker.is_valid("https://example.org/ü"), checker.is_valid("no iri")]
        """
    )
    assert (good, bad) == (True, False)
