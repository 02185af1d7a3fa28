"""Decisions as pure functions of model data: no I/O, no clock, no randomness."""
