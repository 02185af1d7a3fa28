"""Plain data and its rules: imports nothing of ours and does no I/O."""
