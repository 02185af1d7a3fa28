"""The database: the one source of truth, and the queries, each named for what it answers.

Everything here is synchronous and thread-safe; callers on an event loop run it in threads.
"""

from .errors import Changed, NotFound, Unavailable
from .feed import Change
from .history import HistoryFilter, HistoryOrder
from .idle import ClockRecord, IdleRecord
from .image_records import Commit, CommitCancelled, IllegalCommit, Made, Remains, Wish
from .launches import Launch
from .notices import Notice, NoticeKey, NoticeState
from .outlook import Ahead
from .queries import Filter, Order
from .records import (
    AgentReport,
    AgentState,
    HistoryEntry,
    Kernel,
    OpenWay,
    RunningContainer,
    Session,
    SessionResult,
    SubStep,
    Way,
)
from .resting import Return
from .sessions import NewPriority
from .store import Store
from .ways import Pool, Wanted

__all__ = [
    "AgentReport",
    "AgentState",
    "Ahead",
    "Change",
    "Changed",
    "ClockRecord",
    "Commit",
    "CommitCancelled",
    "Filter",
    "HistoryEntry",
    "HistoryFilter",
    "HistoryOrder",
    "IdleRecord",
    "IllegalCommit",
    "Kernel",
    "Launch",
    "Made",
    "NewPriority",
    "NotFound",
    "Notice",
    "NoticeKey",
    "NoticeState",
    "OpenWay",
    "Order",
    "Pool",
    "Remains",
    "Return",
    "RunningContainer",
    "Session",
    "SessionResult",
    "Store",
    "SubStep",
    "Unavailable",
    "Wanted",
    "Way",
    "Wish",
]
