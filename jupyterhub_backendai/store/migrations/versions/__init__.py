"""One module a change; the first is r0001."""
