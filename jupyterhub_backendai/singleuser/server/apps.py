"""The apps of this session and their state, and `E/apps`."""

from .access import SignedInOrKey, checked


class AppsHandler(SignedInOrKey):
    """`GET E/apps`"""

    @checked
    async def get(self):
        self.answer({"apps": []})


def handlers(parts):
    return [(parts.pattern("apps"), AppsHandler, {"parts": parts})]
