"""What the API's queries may say, as pydantic models; the OpenAPI schema is made from them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, Field
from pydantic_core import PydanticCustomError

from ..model.status import Phase, Result, Status
from .schemas import Part

MOST_ITEMS = 200  # of one page
MOST_OFFSET = 10**9
MOST_LINES = 100_000  # of a log's end

Limit = Annotated[int, Field(ge=1, le=MOST_ITEMS, description="How many, at most.")]
Offset = Annotated[int, Field(ge=0, le=MOST_OFFSET, description="How many to leave out.")]
Word = Annotated[str, Field(min_length=1, max_length=255)]


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        message = "Write a time that is in one of the years 1 to 9999, in UTC too."
        raise PydanticCustomError("out_of_range", message) from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class NoQuery(Part):
    """Nothing at all."""


class PageQuery(Part):
    """Which part of a list, in which order."""

    sort: str
    limit: Limit = 50
    offset: Offset = 0

    def page(self) -> dict[str, Any]:
        """The part and the order, as the store takes them."""
        return {
            "order": self.sort.removeprefix("-"),
            "descending": self.sort.startswith("-"),
            "limit": self.limit,
            "offset": self.offset,
        }


class LookQuery(Part):
    """How a session is looked at."""

    estimate: Literal["0", "1"] = Field(
        default="0", description="`1`: with when it may start, which takes up to a second."
    )


class EndQuery(Part):
    """How a session is ended."""

    force: Literal["0", "1"] = Field(
        default="0", description="`1`: over at once, even if its machine does not answer."
    )
    rests: Literal["again"] | None = Field(
        default=None,
        description="`again`: only if it is still being resumed, so that it rests again; 409 "
        "`runs_by_now` where it runs.",
    )


class SessionQuery(PageQuery):
    """Which sessions, in which order."""

    owner: Word | None = Field(
        default=None, description="Whose; `*` is everybody's. Without it, one's own."
    )
    state: Literal["live", "over"] | None = None
    status: list[Status] | None = Field(default=None, max_length=len(Status))
    type: Literal["interactive", "batch"] | None = None
    resource_group: Word | None = None
    project: Word | None = None
    name: Word | None = Field(default=None, description="Any part of a name.")
    submitted_from: Moment | None = None
    submitted_until: Moment | None = None
    sort: Literal[
        "submitted_at", "-submitted_at", "name", "-name", "owner", "-owner", "status", "-status",
        "priority", "-priority", "ended_at", "-ended_at",
    ] = "-submitted_at"  # fmt: skip


class HistoryQuery(PageQuery):
    """Which rows of a history, in which order."""

    phase: Phase | None = None
    result: Result | None = None
    from_status: Status | None = None
    to_status: Status | None = None
    error_code: Word | None = None
    message: Word | None = Field(default=None, description="Any part of a message.")
    sort: Literal[
        "updated_at", "-updated_at", "created_at", "-created_at", "phase", "-phase",
        "result", "-result", "attempts", "-attempts",
    ] = "-updated_at"  # fmt: skip


class LogQuery(Part):
    """Which part of which log."""

    kernel: Annotated[str, Field(pattern=r"^[a-z]{1,16}[0-9]{1,4}$")] = Field(
        default="main1", description="Which container."
    )
    kind: Literal["all", "command"] = Field(
        default="all", description="`command`: what the command of a batch session wrote, alone."
    )
    tail: Annotated[int, Field(ge=0, le=MOST_LINES)] | None = Field(
        default=None, description="The last lines, so many."
    )
    since: Moment | None = Field(
        default=None, description="What was written since; while the container is there."
    )
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = Field(
        default=0, description="How many bytes to leave out."
    )
    limit: Annotated[int, Field(ge=1, le=MOST_OFFSET)] | None = Field(
        default=None, description="Bytes, at most."
    )
    follow: Literal["0", "1"] = Field(
        default="0",
        description="`1`: waits for the container, and goes on for as long as it runs. It "
        "breaks off after a quarter of an hour without a byte.",
    )
    search: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Only lines that have this in them, as a JSON object each."
    )
    download: Literal["0", "1"] = Field(default="0", description="`1`: as a file.")


class UsageQuery(Part):
    """From when on a series is told."""

    since: Moment | None = Field(
        default=None, description="Without it, since the session started. Older steps are coarser."
    )


class OptionsQuery(Part):
    """Who is to choose."""

    owner: Word | None = Field(default=None, description="Without it, oneself.")


class ImageQuery(Part):
    """Whose images."""

    owner: Word | None = Field(
        default=None, description="Whose; `*` is everybody's. Without it, one's own."
    )


class StreamQuery(Part):
    """Whose changes a stream tells."""

    owner: Word | None = Field(
        default=None, description="Whose; `*` is everybody's. Without it, one's own."
    )
