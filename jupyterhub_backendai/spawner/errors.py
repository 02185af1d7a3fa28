"""Errors as the Hub wants them, so that every door shows a person the sentence meant for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from jupyterhub.spawner import SpawnException
from markupsafe import Markup
from tornado.web import HTTPError

from ..engine.base import AgentUnreachable, EngineError, ImageMissing
from ..model.errors import FieldError, LaunchError, RequestError
from ..site.gpu_host import GpuFailed
from ..store import Unavailable
from .story import Tried

# Bounded: the Hub makes these labels of a metric.
# Never 500: that is a defect of ours, and this is an answer.
_LAUNCH_STATUS = {"cancelled": 409, "folder": 409}


class SessionSpawnError(SpawnException):
    """A start that was refused or failed, with its text for people and its fields for programs.

    The Hub's forms and progress stream look for `jupyterhub_message` and
    `jupyterhub_html_message` only, and show the text meant for the log where they are missing.
    """

    def __init__(
        self, message: str, *, reason: str, status: int, errors: Iterable[FieldError] = ()
    ) -> None:
        self.errors = tuple(errors)
        self.tried: Tried | None = None  # the session of the start that failed, for its page
        html = str(_html(message, self.errors))
        super().__init__(message, reason=reason, message_html=html, status_code=status)
        self.jupyterhub_message = message
        self.jupyterhub_html_message = html

    def say(self, message: str) -> None:
        """Another message from now on, for pages that are loaded later."""
        html = str(_html(message, ()))
        self.message = self.jupyterhub_message = message
        self.message_html = self.jupyterhub_html_message = html

    @classmethod
    def refused(cls, error: RequestError) -> SessionSpawnError:
        """A request that cannot be granted as it is."""
        reason = {400: "bad_options", 403: "policy", 409: "conflict"}[error.status]
        text = "; ".join(f"{e.field}: {e.message}" if e.field else e.message for e in error.errors)
        return cls(text, reason=reason, status=error.status, errors=error.errors)

    @classmethod
    def queued(cls, sentence: str) -> SessionSpawnError:
        """No failure: the session goes on waiting without a page that holds it."""
        return cls(sentence, reason="queued", status=202)

    @classmethod
    def failed(cls, error: LaunchError) -> SessionSpawnError:
        """A session that was accepted and did not get as far as running."""
        status = _LAUNCH_STATUS.get(error.reason, 503)
        return cls(error.message, reason=error.reason, status=status)


def _html(message: str, errors: tuple[FieldError, ...]) -> Markup:
    if not errors:
        return Markup("<p>{}</p>").format(message)
    items = Markup("").join(
        Markup("<li><code>{}</code> {}</li>").format(error.field, error.message)
        if error.field
        else Markup("<li>{}</li>").format(error.message)
        for error in errors
    )
    return Markup("<ul>{}</ul>").format(items)


def why(error: BaseException) -> tuple[str, str]:
    """Reason code and sentence of what ended a start."""
    if isinstance(error, LaunchError):
        return error.reason, error.message
    if isinstance(error, ImageMissing):
        return "image_missing", (
            "The image of this session is not on its machine and cannot be downloaded. "
            "Choose another environment, or tell your admin."
        )
    if isinstance(error, AgentUnreachable):
        return "start_failed", (
            "The machine of this session does not answer. Start it again in a minute."
        )
    if isinstance(error, GpuFailed):
        return "gpu", (
            "The machine could not make this session's GPU ready. Start it again; if it happens "
            "again, tell your admin."
        )
    if isinstance(error, Unavailable):
        return "start_failed", "The Hub's database does not answer. Try again in a minute."
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", "It was cancelled while it started. Start it again when you like."
    return "start_failed", (
        "The session could not be started. Start it again; if it happens again, tell your admin."
    )


def for_people(error: BaseException, log: Any, name: str) -> BaseException:
    """What ended the start of the server `name`, as the Hub is to show it."""
    if isinstance(error, HTTPError):
        return error
    if isinstance(error, (EngineError, Unavailable)):
        # What an admin needs to know, and its owner is not told.
        log.error("%s: %s", name, in_log(str(error), 1000))
    elif not isinstance(error, LaunchError):
        log.error("%s: an unforeseen failure", name, exc_info=error)
    return SessionSpawnError.failed(LaunchError(*why(error)))


@contextmanager
def database_asked(log: Any, name: str) -> Iterator[None]:
    """Around what reads the database for a page or a door. Raises `SessionSpawnError` where it does
    not answer."""
    try:
        yield
    except Unavailable as error:
        raise for_people(error, log, name) from None


class OneLine(logging.Filter):
    """Has the Hub log what a user did wrong in one line: a traceback of it tells an admin nothing,
    and every link that is followed would write one."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, SessionSpawnError):
            record.msg, record.args = "%s: %s", (record.getMessage(), error.jupyterhub_message)
            record.exc_info = record.exc_text = None
            if error.status_code < 500:
                # A link that fills in the form is no failure at all; it only has no other way.
                record.levelno = logging.WARNING if error.status_code >= 400 else logging.INFO
                record.levelname = logging.getLevelName(record.levelno)
        return True


_ONE_LINE = OneLine()


def log_in_one_line(log: logging.Logger | logging.LoggerAdapter[Any]) -> None:
    """Puts the filter on the Hub's own log, once."""
    logger = log.logger if isinstance(log, logging.LoggerAdapter) else log
    logger.addFilter(_ONE_LINE)


def in_log(text: str, most: int = 300) -> str:
    """What a container or a user wrote, fit for one line of a log: nothing in it can look like
    another line, or steer a terminal."""
    plain = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in plain)
