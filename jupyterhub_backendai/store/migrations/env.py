"""What Alembic runs for each command. The connection, its transaction and its lock are ours."""

from __future__ import annotations

from alembic import context

from jupyterhub_backendai.store.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite changes a column by rebuilding its table
)
with context.begin_transaction():
    context.run_migrations()
