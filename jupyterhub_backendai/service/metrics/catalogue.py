"""All metrics: what each is called, what it says, and by what it is told apart.

The reference in the docs is made from this. No label is a user's word or name.
"""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

SLOT = "slot"
FAMILIES = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


@dataclass(frozen=True)
class Told:
    """One metric. A `counter` and a `histogram` count since the service has been asked first."""

    name: str
    kind: str
    says: str
    labels: tuple[str, ...] = ()

    def family(self) -> Metric:
        """A new one of it, without values."""
        return FAMILIES[self.kind](self.name, self.says, labels=self.labels)


SESSIONS = Told(
    "backendai_sessions", "gauge", "Sessions that are not over.", ("resource_group", "status")
)
WAITING = Told("backendai_queue_length", "gauge", "Sessions in line.", ("resource_group",))
LONGEST = Told(
    "backendai_queue_oldest_timestamp_seconds", "gauge",
    "When the session that is in line longest was submitted; nothing where none is.",
    ("resource_group",),
)  # fmt: skip
WAITS = Told(
    "backendai_queue_wait_seconds", "histogram",
    "From submission, or from the start time that was asked for, until there was a place.",
    ("resource_group",),
)  # fmt: skip
SPAWNS = Told(
    "backendai_spawn_seconds", "histogram",
    "From a place until the server answered, the download of an image included.",
    ("resource_group",),
)  # fmt: skip
ENDED = Told(
    "backendai_sessions_ended", "counter",
    "Sessions that ended, by what they ended as (`TERMINATED`, `CANCELLED`, `ERROR`) and why. "
    "Idle sessions have reasons that begin with `idle_`.", ("status", "reason"),
)  # fmt: skip
ENDED_TODAY = Told(
    "backendai_sessions_ended_last_day", "gauge",
    "The same of the last 24 hours, from the database: no restart sets it back.",
    ("status", "reason"),
)  # fmt: skip
AVAILABLE = Told(
    "backendai_agent_available", "gauge", "1: the agent answers.", ("agent", "resource_group")
)
SCHEDULABLE = Told(
    "backendai_agent_schedulable", "gauge", "1: sessions may be placed on it; 0: it is drained.",
    ("agent", "resource_group"),
)  # fmt: skip
SEEN = Told(
    "backendai_agent_seen_timestamp_seconds", "gauge", "When it was looked at last.",
    ("agent", "resource_group"),
)  # fmt: skip
CAPACITY = Told(
    "backendai_agent_capacity", "gauge",
    "What an agent has: cores (`cpu`), bytes (`mem`), shares of a GPU (`fgpu`), GPUs (`gpu`), "
    "MIG devices (`mig`).", ("agent", "resource_group", SLOT),
)  # fmt: skip
HELD = Told(
    "backendai_agent_held", "gauge", "What sessions hold of it, in the same units.",
    ("agent", "resource_group", SLOT),
)  # fmt: skip
HOLDERS = Told(
    "backendai_agent_sessions", "gauge", "Sessions that hold something on it.",
    ("agent", "resource_group"),
)  # fmt: skip
DEVICES = Told(
    "backendai_gpu_devices", "gauge", "GPUs and MIG devices of an agent, by whether they can be "
    "given to sessions.", ("agent", "resource_group", "available"),
)  # fmt: skip
ERRORS = Told(
    "backendai_errors", "counter",
    "Answers of the service that were no success, by status and code of the first error.",
    ("status", "code"),
)  # fmt: skip
NOTICES = Told(
    "backendai_notices", "counter",
    "Warnings of ends by idle checks, by `channel` (`pages`, `mail`, `webhook`) and what became of "
    "each that was sent: `sent`; `failed` (it is sent again), `refused` (it is not), `unsure` (it "
    "may have been taken, so it is not sent again), `none` (its reader is to have none).",
    ("channel", "outcome"),
)  # fmt: skip
DATABASE = Told("backendai_database_up", "gauge", "1: the database answers. 0: all that is made "
                "from it is missing.")  # fmt: skip
INFO = Told("backendai_build_info", "gauge", "Always 1.", ("version",))

CATALOGUE = (
    SESSIONS, WAITING, LONGEST, WAITS, SPAWNS, ENDED, ENDED_TODAY, AVAILABLE, SCHEDULABLE, SEEN,
    CAPACITY, HELD, HOLDERS, DEVICES, ERRORS, NOTICES, DATABASE, INFO,
)  # fmt: skip
