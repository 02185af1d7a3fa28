"""How images are made of sessions, and removed: the parts of `workers.commits`."""
