"""Store: all that the rest of the house does with the database, one transaction a call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import IntegrityError

from ..model.catalog import Catalog
from ..model.errors import RequestError
from ..model.gpus import Granted
from ..model.policy import Policies
from ..model.resolve import SessionRequest
from ..model.slots import Slots
from ..model.status import Phase, Result, Status
from ..scheduling.snapshot import Holding, Snapshot
from . import agents, forgetting, history, kernels, passes, queries, retries, sessions
from .hibernation_calls import HibernationCalls
from .history import Outcome
from .idle_calls import IdleCalls
from .image_calls import ImageCalls
from .notice_calls import NoticeCalls
from .queries import Filter, Order
from .records import (
    AgentReport,
    AgentState,
    HistoryEntry,
    Kernel,
    KernelFacts,
    Session,
    SessionResult,
    SubStep,
)
from .service_calls import ServiceCalls
from .sessions import NewPriority, Submission
from .usage_calls import UsageCalls
from .way_calls import WayCalls

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Store(
    ServiceCalls, UsageCalls, WayCalls, IdleCalls, ImageCalls, HibernationCalls, NoticeCalls
):
    """The one source of truth. Thread-safe; several processes may each have one.

    Every call is one transaction, and what it returns does not change later. Every call may raise
    `Unavailable`, and then has done nothing. `now` is a time with its zone.

    Raises `ConfigurationError` for a URL that cannot be used; connects only when first called.
    """

    # -- sessions: changes

    def submit(
        self,
        request: SessionRequest,
        *,
        owner: str,
        owner_groups: Collection[str],
        server_name: str,
        name: str,
        driver: str | None,
        max_pending: int | None,
        now: datetime,
        asked: Mapping[str, Any] | None = None,
        policies: Policies = Policies(),  # noqa: B008 - frozen
        catalog: Catalog = Catalog(),  # noqa: B008 - frozen
    ) -> Session:
        """Queues a session. `max_pending`: how many of the owner's may wait, this one included
        unless a pass by `policies` and `catalog` would start it now; 0: only what starts at once.
        `asked`: the options as sent; they are kept, less what looks secret, with the session and
        among the owner's recent launches.

        Raises `RequestError` (`in_use`, `server_in_use`, `too_many_pending`).
        """
        (session,) = self.submit_many(
            request, owner=owner, owner_groups=owner_groups, names={server_name: name},
            driver=driver, max_pending=max_pending, now=now, asked=asked,
            policies=policies, catalog=catalog,
        )  # fmt: skip
        return session

    def submit_many(
        self,
        request: SessionRequest,
        *,
        owner: str,
        owner_groups: Collection[str],
        names: Mapping[str, str],
        driver: str | None,
        max_pending: int | None,
        now: datetime,
        asked: Mapping[str, Any] | None = None,
        launched_by: str | None = None,
        policies: Policies = Policies(),  # noqa: B008 - frozen
        catalog: Catalog = Catalog(),  # noqa: B008 - frozen
    ) -> list[Session]:
        """Queues one session for each of `names` (by server name), all of them or none; together
        they are one launch, of the owner or of whoever launched it for them. Else as `submit`."""
        together = [
            Submission(
                request, owner, owner_groups, server_name, name, driver, max_pending, asked,
                launched_by,
            )
            for server_name, name in names.items()
        ]  # fmt: skip
        try:
            with self._changing(owner) as db:
                left_waiting = partial(passes.left_waiting, db, owner, policies, catalog, now)
                return sessions.submit(db, together, now, left_waiting)
        except IntegrityError:
            # An index saw what the check could not. Tell it in the same words.
            with self._db.read() as db:
                errors = sessions.taken(db, together, sessions.standing_of(db, together))
            if not errors:
                raise
            raise RequestError(errors) from None

    def move(
        self,
        session_id: str,
        to: Status,
        *,
        phase: Phase,
        now: datetime,
        result: Result = Result.SUCCESS,
        reason_code: str = "",
        reason: str = "",
        error_code: str | None = None,
        message: str = "",
        sub_steps: Sequence[SubStep] = (),
        expect: Status | None = None,
        exit_code: int | None = None,
        result_of_work: SessionResult | None = None,
        version: int | None = None,
    ) -> Session:
        """Takes a session to another status and notes it in the history.

        `exit_code` is that of its command or container; what came of a batch session's work is
        what `result_of_work` says and nothing else, because a container may end for other reasons.

        `reason` is for the owner, `message` for the history (by default "<phase> <result>").
        Whatever is held is freed when the new status holds nothing. To SCHEDULED only `run_pass`
        leads, because only a pass grants a place.

        Raises `IllegalTransition`, also where the status is not the expected one; `NotFound`;
        `Changed` where the session has another version than the one given.
        """
        if to is Status.SCHEDULED:
            raise ValueError("only run_pass grants a place")
        message = message or f"{phase.value} {result.value.lower()}"
        outcome = Outcome(
            phase, result, to_status=to, error_code=error_code, message=message,
            sub_steps=sub_steps,
        )  # fmt: skip
        with self._write() as db:
            session = sessions.locked(db, session_id, version)
            return sessions.move(
                db, session, outcome, now=now, reason_code=reason_code, reason=reason,
                expect=expect, exit_code=exit_code, result_of_work=result_of_work,
            )  # fmt: skip

    def advance(
        self, session_id: str, to: Status, *, now: datetime, sub_steps: Sequence[SubStep] = ()
    ) -> Session:
        """Takes a session that is on its way to its next status: what is done in the one that it
        was in went well, step by step. Raises `IllegalTransition`, `NotFound`."""
        with self._write() as db:
            return sessions.advance(db, session_id, to, now, sub_steps)

    def retry_or_give_up(
        self,
        session_id: str,
        *,
        phase: Phase,
        error_code: str,
        reason: str,
        now: datetime,
        message: str = "",
        sub_steps: Sequence[SubStep] = (),
        version: int | None = None,
    ) -> Session:
        """A start that failed in `phase`: back to PENDING (NEED_RETRY), and the agent is avoided
        for it; or to TERMINATING (GIVE_UP) at the fifth time, and at once for an error that
        another try would only repeat. The caller looks at the status of what it gets, and in the
        second case removes what there is and ends the session.

        `reason` is a sentence for the owner, `message` one for the history (by default the same).
        Raises `IllegalTransition` where the session is not on its way, `NotFound`, `Changed`.
        """
        with self._write() as db:
            return retries.retry_or_give_up(
                db, session_id, phase, error_code, reason=reason, message=message, now=now,
                sub_steps=sub_steps, version=version,
            )  # fmt: skip

    def was_retried(self, session_id: str) -> bool:
        """Whether a start of the session broke off, and it was tried again."""
        with self._db.query() as db:
            return retries.was_retried(db, session_id)

    def mark_batch_started(self, session_id: str, at: datetime) -> Session:
        """Notes when the command of a batch session began; the first such note counts. Raises
        `NotFound`."""
        with self._write() as db:
            return sessions.mark_batch_started(db, session_id, at)

    def mark_batch_ended(
        self, session_id: str, exit_code: int | None, result: SessionResult
    ) -> Session:
        """Notes what became of the command of a batch session, before its status says so; the
        first such note counts. Raises `NotFound`."""
        with self._write() as db:
            return sessions.mark_batch_ended(db, session_id, exit_code, result)

    def note(
        self,
        session_id: str,
        phase: Phase,
        result: Result,
        *,
        now: datetime,
        error_code: str | None = None,
        message: str = "",
        sub_steps: Sequence[SubStep] = (),
    ) -> None:
        """Notes in the history what did not change the status. Raises `NotFound`."""
        with self._write() as db:
            status = sessions.touch(db, session_id).status
            outcome = Outcome(phase, result, status, None, error_code, message, sub_steps)
            history.record(db, session_id, outcome, now)

    def change(
        self,
        session_id: str,
        name: str | None = None,
        priority: NewPriority | None = None,
        version: int | None = None,
    ) -> Session:
        """Changes the name that the owner reads, or how soon it is its turn, which is noted in the
        history; None stays. Raises `NotFound`; `RequestError` for a name in use, and for the
        priority of one that does not wait; `Changed` where the session has another version than
        the one given."""
        try:
            with self._write() as db:
                return sessions.change(db, session_id, name, priority, version)
        except IntegrityError:
            if name is None:
                raise
            raise RequestError([sessions.name_in_use(name)]) from None

    def rename(self, session_id: str, name: str, version: int | None = None) -> Session:
        """Changes the name alone; see `change`."""
        return self.change(session_id, name, None, version)

    def claim(self, session_id: str, driver: str, *, held_by: str | None = None) -> Session | None:
        """Makes `driver` (the id of a process run) the one that works on a session.

        The session if nobody else does: its driver was `held_by` (None: nobody), or `driver`
        already. None if somebody else was faster or it is over. Raises `NotFound`.
        """
        with self._write() as db:
            return sessions.claim(db, session_id, driver, held_by)

    def release(self, session_id: str, driver: str) -> None:
        """Leaves a session to nobody, if `driver` works on it. Raises `NotFound`."""
        with self._write() as db:
            sessions.release(db, session_id, driver)

    def set_kernel(
        self, session_id: str, kernel: str = passes.MAIN_KERNEL, **facts: Unpack[KernelFacts]
    ) -> None:
        """Notes facts of a container; others of its facts stay. Raises `NotFound`."""
        with self._write() as db:
            kernels.note(db, session_id, kernel, facts)

    def forget(self, before: datetime, most: int) -> int:
        """Removes sessions that were over before that time, with their kernels, allocations and
        history: the oldest first, `most` at once. Returns how many it removed."""
        with self._db.write() as db:
            return forgetting.forget(db, before, most)

    # -- sessions: questions

    def get(self, session_id: str) -> Session:
        """The session of this id. Raises `NotFound`."""
        with self._db.query() as db:
            return queries.get(db, session_id)

    def get_many(self, session_ids: Collection[str]) -> dict[str, Session]:
        """The sessions of these ids, by id; an id without a session is left out."""
        with self._db.query() as db:
            return queries.get_many(db, session_ids)

    def live_of(self, owner: str, server_name: str) -> Session | None:
        """The session that a server of the Hub has now."""
        with self._db.query() as db:
            return queries.of_server(db, owner, server_name, live=True)

    def latest_of(self, owner: str, server_name: str) -> Session | None:
        """The session that a server of the Hub has or had last."""
        with self._db.query() as db:
            return queries.of_server(db, owner, server_name, live=False)

    def live_names(self, owner: str) -> frozenset[str]:
        """Names that a new session of the owner cannot have."""
        with self._db.query() as db:
            return queries.live_names(db, owner)

    def live(
        self,
        statuses: Collection[Status] | None = None,
        driver_not: str | None = None,
        type: str | None = None,
    ) -> list[Session]:
        """Sessions that are not over, oldest first. `driver_not`: only those that this driver does
        not work on (nobody's included)."""
        with self._db.query() as db:
            return queries.live(db, statuses, driver_not, type)

    def list_sessions(
        self,
        wanted: Filter = Filter(),  # noqa: B008 - frozen
        *,
        order: Order = "submitted_at",
        descending: bool = True,
        limit: int = 50,
        offset: int = 0,
    ) -> tuple[list[Session], int]:
        """One page of the sessions wanted, and how many there are in all."""
        with self._db.read() as db:
            return queries.page(db, wanted, order, descending, limit, offset)

    def holdings(self) -> list[Holding]:
        """All that is held now, in the order in which it was granted."""
        with self._db.query() as db:
            return agents.holdings(db)

    def used(self, owner: str) -> tuple[Slots, int]:
        """What the owner's sessions hold, and how many of them hold something."""
        with self._db.query() as db:
            return agents.used(db, owner)

    def granted(self, session_id: str) -> tuple[Granted, ...]:
        """The GPUs that a session was given last, whether it still holds them or not."""
        with self._db.query() as db:
            return agents.granted(db, session_id)

    def all_granted(self) -> dict[str, tuple[Granted, ...]]:
        """The GPUs of all sessions that hold some now, by session id."""
        with self._db.query() as db:
            return agents.all_granted(db)

    def kernels(self, session_id: str) -> list[Kernel]:
        """The containers of a session, the main one first."""
        with self._db.query() as db:
            return queries.kernels(db, session_id)

    def live_containers(self) -> list[str]:
        """Ids of the containers of sessions that are not over."""
        with self._db.query() as db:
            return queries.live_containers(db)

    def history(self, session_id: str) -> list[HistoryEntry]:
        """What was tried for a session, newest first."""
        with self._db.query() as db:
            return history.entries(db, session_id)

    # -- agents and the queue

    def report_agents(
        self, reports: Sequence[AgentReport], *, now: datetime, reporter: str = "engine"
    ) -> None:
        """Takes in all agents of one reporter. One that it names no more is forgotten, or, while
        something is held on it, no longer available. What its admin says of it stays."""
        with self._write(alone=True) as db:
            agents.report(db, reporter, reports, now)

    def set_schedulable(
        self, agent: str, schedulable: bool, *, by: str, now: datetime
    ) -> AgentState:
        """Says, as the admin `by`, whether sessions may be placed on an agent. When this returns no
        pass places anything on one that may have none; what has its place there keeps it. Where it
        is so already nothing changes. Raises `NotFound`."""
        with self._write(alone=True) as db:
            return agents.set_schedulable(db, agent, schedulable, by, now)

    def agents(self) -> list[AgentState]:
        """All agents that are known, by name."""
        with self._db.query() as db:
            return agents.agents(db)

    def snapshot(self, policies: Policies, catalog: Catalog, now: datetime) -> Snapshot:
        """What a schedule pass would decide on now; changes nothing."""
        with self._db.read() as db:
            return passes.snapshot(db, policies, catalog, now)

    def run_pass(self, policies: Policies, catalog: Catalog, now: datetime) -> list[Session]:
        """One schedule pass, alone among all processes. Returns the sessions that it placed."""
        with self._write(alone=True) as db:
            return passes.run(db, policies, catalog, now)
