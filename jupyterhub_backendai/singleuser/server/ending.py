"""That this session will be ended, told by the service, and kept on the word of who is at it.

The service alone knows; it tells with the session's key, and only while the end is near:

    PUT E/ending/told    {"ending": {"left": 540.5, "warning": 1, "fate": "hibernated",
                                     "stays": "its home is kept", "why": "…", "keep": "2 hours"},
                          "answer": null}
                         -> {"here": true, "keep": "d41d…"}
    PUT E/ending/told    {"ending": null, "answer": {"to": "d41d…", "kept": true, "message": "…"}}

`left` is in seconds. `warning` counts the warnings that there were, `fate` is what the session will
be ("ended" is the usual), `stays` what is kept of it then ("": nothing of its own), and `keep` says
for how long it may be kept ("": it may not). In the answer, `here` says whether a page asked
lately, and `keep` names what somebody asks who wants to keep the session: the service decides, and
answers it.

    GET  E/ending    {"ending": null, "again": 30}
    POST E/ending    keeps it: {"kept": true, "message": "It is kept for 2 hours."}

These are for a page of somebody signed in. What is asked there by itself is no use of the session
(`polling.MONITORED`); to keep it is.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from . import activity
from .access import Failure, KeyOnly, SignedIn, checked

HERE = os.path.dirname(os.path.abspath(__file__))
LABEXTENSIONS = os.path.join(HERE, "labextensions")
STALE = 180.0  # seconds after which what the service told is not known any more; it tells each 30
HERE_FOR = 150.0  # seconds that a page counts as there; browsers ask once a minute in hidden tabs
PATIENCE = 45.0  # seconds that somebody waits for the service's word
CALM, NEAR = 30, 10  # seconds after which a page asks again
MOST_TEXT = 1000  # characters


class Ending(NamedTuple):
    """What the service told, by this process's clock."""

    at: float
    heard: float
    warning: int
    fate: str
    stays: str
    why: str
    keep: str


class Endings:
    """What is known of this session's end, and who wants to keep it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: Ending | None = None
        self._seen = float("-inf")
        self._wish: tuple[str, Any] = ("", None)  # its name, and who waits for the answer

    # ---- the service

    def tell(self, said: Any) -> dict[str, Any]:
        """Takes what the service says; what it wants to know. Raises `Failure`."""
        self._told, answer = self._read(said)
        name, waiting = self._wish
        if answer is not None and name and answer["to"] == name:
            self._wish = ("", None)
            if not waiting.done():
                waiting.set_result({"kept": answer["kept"], "message": answer["message"]})
        return {"here": self._clock() - self._seen < HERE_FOR, "keep": self._wish[0]}

    def _read(self, said: Any) -> tuple[Ending | None, Any]:
        try:
            ending, answer = said["ending"], said["answer"]
            if answer is not None:
                texts = {name: _text(answer[name]) for name in ("to", "message")}
                answer = {**texts, "kept": answer["kept"] is True}
            if ending is None:
                return None, answer
            now = self._clock()
            left, warning = float(ending["left"]), int(ending["warning"])
            if not abs(left) < 1e9:
                raise ValueError(left)
            said_of_it = (_text(ending[name]) for name in ("fate", "stays", "why", "keep"))
            return Ending(now + left, now, warning, *said_of_it), answer
        except (KeyError, TypeError, ValueError, OverflowError):
            raise Failure(400, "ending", "This says nothing of this session's end.") from None

    # ---- pages

    def said(self) -> dict[str, Any]:
        """What a page is told; it is there now."""
        now = self._seen = self._clock()
        told = self._told
        if told is None or now - told.heard > STALE:
            return {"ending": None, "again": CALM}
        ends = "ends" if told.fate == "ended" else f"is {told.fate}"
        stays = f"; {told.stays}" if told.stays else ""
        # The reason comes last: JupyterLab shows 140 letters.
        message = f"This session {ends} {until(told.at - now)}{stays}. {told.why}"
        keep = f"Keep it for {told.keep}" if told.keep else ""
        return {
            "ending": {"message": message, "warning": told.warning, "keep": keep},
            "again": NEAR,
        }

    async def keep(self) -> dict[str, Any]:
        """What the service says to the wish to keep it. Raises `Failure`."""
        self._seen = self._clock()
        told = self._told
        if told is None or self._seen - told.heard > STALE:
            raise Failure(409, "not_needed", "Nothing ends it soon, so it need not be kept.")
        if not self._wish[0]:
            future = asyncio.get_running_loop().create_future()
            self._wish = (secrets.token_hex(8), future)
        wish = self._wish
        done, _ = await asyncio.wait({wish[1]}, timeout=PATIENCE)
        if done:
            return wish[1].result()
        if self._wish is wish:
            self._wish = ("", None)
        message = "The sessions service has not answered. Try again, or keep it on its own page."
        raise Failure(503, "no_answer", message)


def until(left: float) -> str:
    """How soon that is: never later than it will be."""
    minutes = int(left // 60)
    if minutes < 1:
        return "in less than a minute"
    hours, rest = divmod(minutes, 60)
    parts = [_many(hours, "hour")] if hours else []
    if rest:
        parts.append(_many(rest, "minute"))
    return "in " + " ".join(parts)


def _many(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise ValueError("no text")
    return value


class EndingHandler(SignedIn):
    """`E/ending`, for pages"""

    def initialize(self, parts: Any, endings: Any = None) -> None:
        super().initialize(parts)
        self.endings = endings

    def wants_page(self) -> bool:
        return False

    @checked
    async def get(self) -> None:
        self.answer(self.endings.said())

    @checked
    async def post(self) -> None:
        self.parts.watch.use()
        activity.note(self.settings)
        self.answer(await self.endings.keep())


class ToldHandler(KeyOnly):
    """`PUT E/ending/told`, for the service"""

    def initialize(self, parts: Any, endings: Any = None) -> None:
        super().initialize(parts)
        self.endings = endings

    @checked
    async def put(self) -> None:
        try:
            said = json.loads(self.request.body)
        except (ValueError, RecursionError):
            said = None
        self.answer(self.endings.tell(said))


def configure(serverapp: Any) -> None:
    """Has JupyterLab and Notebook load the page's part of this, before they look what there is."""
    from traitlets.config import Config

    said: Any = serverapp.config.LabServerApp.get("extra_labextensions_path", [])
    if hasattr(said, "get_value"):  # `c.LabServerApp.extra_labextensions_path.append(…)`
        said = said.get_value([])
    paths = [*said, LABEXTENSIONS]
    serverapp.update_config(Config({"LabServerApp": {"extra_labextensions_path": paths}}))


def handlers(parts: Any) -> list[Any]:
    given = {"parts": parts, "endings": Endings()}
    return [
        (parts.pattern("ending"), EndingHandler, given),
        (parts.pattern("ending/told"), ToldHandler, given),
    ]
