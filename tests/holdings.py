"""What is held in a database, for tests of whatever holds it."""

from __future__ import annotations

from jupyterhub_backendai.scheduling.snapshot import Holding
from jupyterhub_backendai.store import Store, agents


def holdings(store: Store) -> list[Holding]:
    """All that is held now."""
    with store._db.read() as db:
        return agents.holdings(db)
