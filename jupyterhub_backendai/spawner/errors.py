"""Errors as the Hub wants them, so that every door shows a person the sentence meant for them."""

from __future__ import annotations

from collections.abc import Iterable

from jupyterhub.spawner import SpawnException
from markupsafe import Markup

from ..model.errors import FieldError, LaunchError, RequestError

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
        html = str(_html(message, self.errors))
        super().__init__(message, reason=reason, message_html=html, status_code=status)
        self.jupyterhub_message = message
        self.jupyterhub_html_message = html

    @classmethod
    def refused(cls, error: RequestError) -> SessionSpawnError:
        """A request that cannot be granted as it is."""
        reason = {400: "bad_options", 403: "policy", 409: "conflict"}[error.status]
        text = "; ".join(f"{e.field}: {e.message}" if e.field else e.message for e in error.errors)
        return cls(text, reason=reason, status=error.status, errors=error.errors)

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
