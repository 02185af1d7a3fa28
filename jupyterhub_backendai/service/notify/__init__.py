"""Owners are told ahead of an end: which warnings are due, in what words, and by which means."""
