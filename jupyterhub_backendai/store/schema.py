"""Brings the schema of a database to that of this code."""

from __future__ import annotations

import threading
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from ..model.errors import ConfigurationError
from .database import TRAIT, Database

_ALEMBIC = threading.Lock()  # Alembic keeps the command that runs in module globals


def configuration(connection: Connection | None = None) -> Config:
    """Alembic's configuration for the migrations beside this module."""
    config = Config()
    folder = str(Path(__file__).with_name("migrations"))
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(database: Database, connection: Connection) -> None:
    """Upgrades to the newest schema, inside the transaction of `connection`.

    Raises `ConfigurationError` for a database that a newer version has written.
    """
    config = configuration(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    unknown = set(MigrationContext.configure(connection).get_current_heads()) - known
    if unknown:
        raise ConfigurationError(
            TRAIT,
            database.shown,
            "A newer version of jupyterhub-backendai has used this database (its schema is "
            f"{', '.join(sorted(unknown))}).",
            "Install that version again, or go back to a backup from before the upgrade.",
        )
    with _ALEMBIC:
        command.upgrade(config, "head")
    if database.is_sqlite:
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
        assert broken is None, f"a migration left rows without their session: {broken}"


def downgrade(connection: Connection, revision: str) -> None:
    """Goes back to `revision` ('base': no tables), inside the transaction of `connection`."""
    with _ALEMBIC:
        command.downgrade(configuration(connection), revision)
