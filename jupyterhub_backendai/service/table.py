"""Every call of the API: its path, what it takes and gives, and who may make it.

The routes, the OpenAPI schema, the table in the docs and the matrix test are made from this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pydantic import BaseModel

from ..model.spec import SessionSpec
from . import agents, apps, charts, image_rows, queries, schemas
from .auth import DELETE, METRICS, READ, START
from .idle import schemas as idle

JSON = ("application/json",)


class Who(Enum):
    """Whom a call serves; the value is what the docs say."""

    ANYBODY = "anybody"
    OWN = "each for themselves"
    FOR = "each for themselves; for others with the scope for them"
    OWNER = "the owner; others with the scope for them, else it is not there"
    ADMIN = "whoever has the scope for everybody's"


@dataclass(frozen=True)
class Call:
    """One method on one path.

    `scope` is the Hub's that it takes, for one's own servers or for everybody's, and `also` one
    that it takes besides. `errors` are the statuses that it may answer with beside those that all
    calls share.
    """

    name: str
    method: str
    path: str  # below the service's prefix, with {parts}
    says: str
    who: Who
    scope: str = ""
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    reply: type[BaseModel] | None = None
    status: int = 200
    errors: tuple[int, ...] = ()
    media: tuple[str, ...] = JSON
    headers: tuple[tuple[str, str], ...] = field(default=())
    also: str = ""

    @property
    def scopes(self) -> tuple[str, ...]:
        """All that it takes."""
        return tuple(scope for scope in (self.scope, self.also) if scope)

    @property
    def all_errors(self) -> list[int]:
        """The statuses that are no success."""
        shared = {400, 405, 413, 503}
        if self.who is not Who.ANYBODY:
            shared |= {401, 403}
        if "{" in self.path:
            shared.add(404)
        return sorted(shared | set(self.errors))


ONE = "api/sessions/{id}"
LAUNCH = "api/history/{id}"
IF_MATCH = (("If-Match", "The ETag of what was read: 412 where somebody has changed it since."),)
AGAIN = (("Last-Event-ID", "The id of the last event that was read, to go on from there."),)

CALLS: tuple[Call, ...] = (
    Call(
        "health", "GET", "health", "Whether the service works.", Who.ANYBODY, reply=schemas.Health,
    ),
    Call(
        "schema", "GET", "api/openapi.json", "This schema.", Who.ANYBODY,
    ),
    Call(
        "metrics", "GET", "metrics", "Numbers of the whole site, as Prometheus reads them; for "
        "anybody with `metrics_open`.", Who.ADMIN, METRICS, media=("text/plain",),
    ),
    Call(
        "options", "GET", "api/options", "What one may choose now.", Who.FOR, READ,
        query=queries.OptionsQuery, reply=schemas.Options,
    ),
    Call(
        "estimate", "POST", "api/estimate", "When a session would start if it were launched now.",
        Who.FOR, READ, body=SessionSpec, reply=schemas.Outlook, errors=(409, 429),
    ),
    Call(
        "launch", "POST", "api/sessions",
        "Queues a session, or `count` of them, all or none.", Who.FOR, START,
        body=SessionSpec, reply=schemas.Launched, status=201, errors=(409,),
    ),
    Call(
        "listSessions", "GET", "api/sessions", "Sessions, filtered, sorted, a page at a time.",
        Who.FOR, READ, query=queries.SessionQuery, reply=schemas.SessionPage,
    ),
    Call(
        "session", "GET", ONE, "All there is to say about a session.", Who.OWNER, READ,
        query=queries.LookQuery, reply=schemas.SessionDetail, errors=(429,),
    ),
    Call(
        "change", "PATCH", ONE, "Gives a session another name or priority.", Who.OWNER, START,
        body=schemas.Change, reply=schemas.SessionDetail, errors=(409, 412), headers=IF_MATCH,
    ),
    Call(
        "end", "DELETE", ONE,
        "Cancels or ends a session; one that is over stays as it is.", Who.OWNER, DELETE,
        query=queries.EndQuery, reply=schemas.SessionDetail, status=202, errors=(409, 412),
        headers=IF_MATCH,
    ),
    Call(
        "sessionHistory", "GET", f"{ONE}/history", "What was tried for a session, and how it went.",
        Who.OWNER, READ, query=queries.HistoryQuery, reply=schemas.HistoryPage,
    ),
    Call(
        "logs", "GET", f"{ONE}/logs", "What a container of a session wrote; what is no text in it "
        "is escaped.", Who.OWNER, READ, query=queries.LogQuery,
        media=("text/plain", "application/x-ndjson"), errors=(409, 429),
    ),
    Call(
        "usage", "GET", f"{ONE}/usage",
        "What a session uses of what it was granted, now and since its start.",
        Who.OWNER, READ, query=queries.UsageQuery, reply=charts.SessionUsage,
    ),
    Call(
        "idle", "GET", f"{ONE}/idle", "The idle checks of a session, and when it is ended.",
        Who.OWNER, READ, reply=idle.IdleView, errors=(409,),
    ),
    Call(
        "keep", "POST", f"{ONE}/idle", "Keeps a session that idle checks would end.",
        Who.OWNER, START, body=idle.KeepBody, reply=idle.IdleView, errors=(409,),
    ),
    Call(
        "sessionApps", "GET", f"{ONE}/apps", "The apps of a session, and who may come to them.",
        Who.OWNER, READ, reply=apps.SessionApps,
    ),
    Call(
        "openApp", "POST", f"{ONE}/apps/{{app}}",
        "Opens an app: where it is, for its owner or for everybody.", Who.OWNER, START,
        body=apps.Opening, reply=apps.Opened, errors=(409, 429),
    ),
    Call(
        "closeApp", "DELETE", f"{ONE}/apps/{{app}}",
        "Closes all that is open to others of an app.", Who.OWNER, START, status=204,
    ),
    Call(
        "openApps", "GET", "api/apps", "All apps that are open to others.", Who.ADMIN, READ,
        reply=apps.WayList,
    ),
    Call(
        "makeImage", "POST", f"{ONE}/commit",
        "Makes an image of a session that runs, for its owner.", Who.OWNER, START,
        body=image_rows.CommitBody, reply=image_rows.CommitRow, status=202, errors=(409,),
    ),
    Call(
        "commit", "GET", f"{ONE}/commit", "How far the newest image of a session is.", Who.OWNER,
        READ, reply=image_rows.CommitRow,
    ),
    Call(
        "cancelImage", "DELETE", f"{ONE}/commit",
        "Gives up the image that is made of a session; one that is over stays as it is.",
        Who.OWNER, START, reply=image_rows.CommitRow, status=202,
    ),
    Call(
        "hibernate", "POST", f"{ONE}/hibernation",
        "Hibernates a session that runs: its files and home are kept, all that it holds is free.",
        Who.OWNER, START, reply=image_rows.CommitRow, status=202, errors=(409,), also=DELETE,
    ),
    Call(
        "hibernation", "GET", f"{ONE}/hibernation", "What is kept of a hibernated session.",
        Who.OWNER, READ, reply=image_rows.HibernationRow,
    ),
    Call(
        "resume", "POST", f"{ONE}/resume",
        "Resumes a hibernated session: it waits in line, and goes on where it was.", Who.OWNER,
        START, reply=schemas.SessionDetail, status=202, errors=(409,),
    ),
    Call(
        "images", "GET", "api/images", "Images that were made of sessions, by owner and name.",
        Who.FOR, READ, query=queries.ImageQuery, reply=image_rows.ImageList,
    ),
    Call(
        "image", "GET", "api/images/{id}", "One image.", Who.OWNER, READ,
        reply=image_rows.ImageRow,
    ),
    Call(
        "deleteImage", "DELETE", "api/images/{id}",
        "Deletes an image that no session uses; it is removed from the agents soon.", Who.OWNER,
        START, reply=image_rows.ImageRow, status=202, errors=(409,),
    ),
    Call(
        "launches", "GET", "api/history", "One's five newest launches, and those that are pinned.",
        Who.OWN, READ, reply=schemas.LaunchList,
    ),
    Call(
        "changeLaunch", "PATCH", LAUNCH, "Renames or pins one of one's launches.", Who.OWN, START,
        body=schemas.LaunchChange, reply=schemas.LaunchRow, errors=(409,),
    ),
    Call(
        "forgetLaunch", "DELETE", LAUNCH, "Forgets one of one's launches.", Who.OWN, START,
        status=204,
    ),
    Call(
        "key", "GET", "api/key", "One's own key, to sign in to one's sessions by SSH.", Who.OWN,
        START, media=("text/plain",),
    ),
    Call(
        "newKey", "POST", "api/key",
        "Makes a new key; sessions that run go on taking the one before it.", Who.OWN, START,
        status=201, media=("text/plain",),
    ),
    Call(
        "agents", "GET", "api/agents", "The agents, and how much of each is taken.", Who.ADMIN,
        READ, reply=agents.AgentList,
    ),
    Call(
        "changeAgent", "PATCH", "api/agents/{name}",
        "Drains an agent, or has it take sessions again.", Who.ADMIN, START,
        body=agents.AgentChange, reply=agents.AgentRow,
    ),
    Call(
        "events", "GET", "api/events",
        "Server-sent events of all sessions that one may see.", Who.FOR, READ,
        query=queries.StreamQuery, media=("text/event-stream",), errors=(429,), headers=AGAIN,
    ),
)  # fmt: skip


def calls_at(path: str) -> dict[str, Call]:
    """The calls of one path, by method."""
    return {call.method: call for call in CALLS if call.path == path}
