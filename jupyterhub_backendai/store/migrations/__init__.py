"""The schema's changes, in order. Alembic reads this folder where the package is installed."""
