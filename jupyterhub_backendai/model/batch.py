"""What is started without anybody waiting for it: commands, start times, dependencies, priority."""

from __future__ import annotations

from datetime import datetime

from .amounts import AmountChecks
from .errors import Problem, shown
from .moments import check_start
from .request import Work
from .spec import Batch


class BatchChecks(AmountChecks):
    """The part of a request that says what it runs and when."""

    def check_service(self) -> None:
        """Without the service nobody is there to start what no page waits for."""
        spec = self.spec
        if spec.type == "interactive" and spec.batch not in (None, Batch()):
            self.fail("batch", "not_batch", "Only a batch session has a command. Remove it.")
        if self.context.service:
            return
        if spec.type == "batch":
            self._off("type", "Choose interactive.")
        if spec.depends_on:
            self._off("depends_on", "Leave it out.")
        if spec.count > 1:
            self._off("count", "Start one session at a time.")

    def _off(self, field: str, remedy: str) -> None:
        self.fail(field, "not_available", f"It needs the sessions service, which is off. {remedy}")

    def work(self) -> Work | None:
        """What a batch session runs; it has to be said."""
        if self.spec.type != "batch" or not self.context.service:
            return None
        batch = self.spec.batch or Batch()
        if batch.command is None or not batch.command.strip():
            self.fail("batch.command", "missing", "Write the command that this session runs.")
            return None
        return Work(command=batch.command, timeout=batch.timeout)

    def start(self) -> datetime | None:
        """The time before which a batch session does not start."""
        if self.spec.type != "batch" or self.spec.batch is None or not self.spec.batch.starts_at:
            return None
        try:
            return check_start(self.spec.batch.starts_at, self.context.now)
        except Problem as problem:
            self.fail("batch.starts_at", problem.code, problem.message)
            return None

    def priority(self) -> int:
        """The priority asked for, at most what policy allows; else the user's own."""
        wanted, most = self.spec.priority, self.policy.highest_priority
        if wanted is None:
            return self.policy.priority
        if wanted > most:
            self.forbid("priority", "too_high", f"Your priority can be at most {most}.")
        return wanted

    def earlier(self) -> tuple[str, ...]:
        """Ids of the sessions that have to end in success before this one starts."""
        found: list[str] = []
        for index, reference in enumerate(self.spec.depends_on):
            field, session = f"depends_on.{index}", self.context.sessions.get(reference)
            if not self.context.service:
                break
            if session is None:
                message = f"You have no session named {shown(reference)}. Write its name or its id."
                self.fail(field, "unknown", message)
            elif session.type != "batch":
                message = f"{session.name} is interactive and has no result. Name a batch session."
                self.fail(field, "not_batch", message)
            elif session.ended and not session.succeeded:
                message = f"{session.name} did not end in success, so this would never start."
                self.fail(field, "dependency_failed", message)
            elif session.id in found:
                self.fail(field, "duplicate", f"{session.name} is there twice. Remove one.")
            else:
                found.append(session.id)
        return tuple(found)
