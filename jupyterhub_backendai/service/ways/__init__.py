"""Ways to the apps of sessions: beyond their owners' own sign-in, by an address or a port."""
