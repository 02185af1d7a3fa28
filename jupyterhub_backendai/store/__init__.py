"""The database: the one source of truth, and the queries, each named for what it answers.

Everything here is synchronous and thread-safe; callers on an event loop run it in threads.
"""

from .errors import Changed, NotFound, Unavailable
from .feed import Change
from .history import HistoryFilter, HistoryOrder
from .launches import Launch
from .outlook import Ahead
from .queries import Filter, Order
from .records import (
    AgentReport,
    AgentState,
    HistoryEntry,
    Kernel,
    Session,
    SessionResult,
    SubStep,
)
from .sessions import NewPriority
from .store import Store

__all__ = [
    "AgentReport",
    "AgentState",
    "Ahead",
    "Change",
    "Changed",
    "Filter",
    "HistoryEntry",
    "HistoryFilter",
    "HistoryOrder",
    "Kernel",
    "Launch",
    "NewPriority",
    "NotFound",
    "Order",
    "Session",
    "SessionResult",
    "Store",
    "SubStep",
    "Unavailable",
]
