"""Idle checks: sessions that nobody uses, or that are too old, are ended in the end."""
