"""What is told, in words; the same by all channels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Literal

from ...model.errors import shown
from ...model.idle import CheckName
from ...model.moments import limit_words
from ...store import NoticeKey

By = CheckName | Literal["retention"]
_DO: dict[By, str] = {
    "retention": "Resume it if you need it.",
    "network": "Use it, and it goes on.",
    "utilization": "It goes on if it computes more.",
    "lifetime": "Take what you need out of it.",
}


@dataclass(frozen=True, slots=True)
class Message:
    """A warning of the end of a session. `left`: seconds; `keep`: for how many of them its owner
    may keep it, 0: not; `url`: of its page, empty where nobody has said where the Hub is. `fate`:
    what it will be, `stays`: what there is of it then."""

    key: NoticeKey
    name: str
    owner: str
    ends_at: datetime
    left: float
    by: By
    why: str
    keep: float
    url: str
    fate: str = "ended"
    stays: str = "What you saved in a folder stays."

    @property
    def id(self) -> str:
        """One for each warning; the same when it is sent again."""
        key = self.key
        return f"{key.session_id}-{key.warning}-{key.ends_at}"

    @property
    def subject(self) -> str:
        """A line."""
        at = self.ends_at.astimezone()
        return f"Your session {shown(self.name)} will be {self.fate} at {at:%H:%M} {_zone(at)}"

    @property
    def text(self) -> str:
        """All of it, plain."""
        about = limit_words(max(60, round(self.left / 60) * 60))
        parts = [
            f"Your session {shown(self.name)} will be {self.fate} at {when(self.ends_at)}, in "
            f"about {about}.",
            f"{self.why} {_DO[self.by]} {self.stays}",
        ]
        if self.keep:
            place = f"on its page:\n{self.url}" if self.url else "on its page."
            parts.append(f"You may keep it for up to {limit_words(self.keep)} more, {place}")
        elif self.url:
            parts.append(f"Its page:\n{self.url}")
        return "\n\n".join(parts) + "\n"

    def as_json(self) -> dict[str, object]:
        """The shape that the docs describe (docs/how-to/notices.md)."""
        return {
            "version": 1,
            "kind": "drop_warning" if self.by == "retention" else "idle_warning",
            "id": self.id,
            "session": {"id": self.key.session_id, "name": self.name},
            "owner": self.owner,
            "ends_at": self.ends_at.astimezone(timezone.utc).isoformat(),
            "warning": self.key.warning,
            "check": self.by,
            "reason": self.why,
            "then": self.fate,
            "url": self.url or None,
        }


def when(at: datetime) -> str:
    """A moment in the zone of this machine, and in UTC."""
    local, utc = at.astimezone(), at.astimezone(timezone.utc)
    text = f"{local:%H:%M} {_zone(local)} on {local:%A}, {local.day} {local:%B %Y}"
    return text if not local.utcoffset() else f"{text} ({utc:%H:%M} UTC)"


def _zone(at: datetime) -> str:
    return "UTC" if at.utcoffset() == timedelta(0) else at.tzname() or f"{at:%z}"
