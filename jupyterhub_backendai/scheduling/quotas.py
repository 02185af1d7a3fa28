"""What an owner or a project still may take during a pass."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.slots import Limits, Slots


class Account:
    """What one owner or one project holds against its limits.

    `keep` sets an amount aside for a session that has waited too long for this quota: nothing
    behind it may make it harder for it to fit, exactly as on a machine (`placement.Room.keep`).
    """

    __slots__ = ("_kept", "_kept_sessions", "limits", "sessions", "used")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.used = Slots()
        self.sessions = 0
        self._kept = Slots()
        self._kept_sessions = 0

    def take(self, slots: Slots, sessions: int = 1) -> None:
        """Count `slots`, and `sessions` more sessions, as held."""
        self.used = self.used + slots
        self.sessions += sessions

    def keep(self, slots: Slots) -> None:
        """Leave at least `slots` and one session within the limits, or all that is left of them."""
        self._kept = self._kept.larger(slots)
        self._kept_sessions = 1

    def admits(self, slots: Slots) -> bool:
        """Whether one more session with `slots` stays within the limits and takes nothing kept."""
        limits, used, kept = self.limits, self.used, self._kept
        return (
            _ok(limits.cpu, slots.cpu, used.cpu + kept.cpu)
            and _ok(limits.mem, slots.mem, used.mem + kept.mem)
            and _ok(limits.fgpu, slots.fgpu, used.fgpu + kept.fgpu)
            and _ok(limits.gpu, slots.gpu, used.gpu + kept.gpu)
            and _ok(limits.mig, slots.mig, used.mig + kept.mig)
            and _ok(limits.sessions, 1, self.sessions + self._kept_sessions)
        )

    def possible(self, slots: Slots) -> bool:
        """Whether a session with `slots` is within the limits where nothing else is held."""
        limits = self.limits
        return (
            _ok(limits.cpu, slots.cpu, 0)
            and _ok(limits.mem, slots.mem, 0)
            and _ok(limits.fgpu, slots.fgpu, 0)
            and _ok(limits.gpu, slots.gpu, 0)
            and _ok(limits.mig, slots.mig, 0)
            and _ok(limits.sessions, 1, 0)
        )

    def over(self, slots: Slots) -> tuple[str, ...]:
        """Names of the slots whose limit a session with `slots` would break now; ("sessions",)
        where it is the number of sessions."""
        return self._over(slots, self.used, self.sessions)

    def over_kept(self, slots: Slots) -> tuple[str, ...]:
        """The same, with what is set aside counted as held."""
        return self._over(slots, self.used + self._kept, self.sessions + self._kept_sessions)

    def never(self, slots: Slots) -> tuple[str, ...]:
        """The same, with nothing held: such a session cannot ever start."""
        return self._over(slots, Slots(), 0)

    def _over(self, slots: Slots, used: Slots, sessions: int) -> tuple[str, ...]:
        limits = self.limits
        if not _ok(limits.sessions, 1, sessions):
            return ("sessions",)
        return tuple(
            name
            for name, amount in slots
            if not _ok(getattr(limits, name), amount, getattr(used, name))
        )


def _ok(limit: int | None, asked: int, beside: int) -> bool:
    """What is not asked breaks no limit, even one that was lowered below what is held."""
    return limit is None or asked == 0 or asked + beside <= limit


def count(account: Account, held: Iterable[tuple[str, Slots]]) -> None:
    """Enter allocations (session id, slots): a session with several is one session."""
    sessions = set()
    for session_id, slots in held:
        sessions.add(session_id)
        account.take(slots, sessions=0)
    account.sessions += len(sessions)
