"""An owner keeps a session that would be ended: as long as the policy allows, and recorded."""

from __future__ import annotations

from dataclasses import replace

from ...model.errors import FieldError, Kind, RequestError
from ...model.idle import Keep
from ...model.moments import limit_words
from ...site.clock import utcnow
from ...site.runtime import Site
from ...store import IdleRecord
from .watch import Watch
from .watched import LEAST, Watched

FIELD = "seconds"


async def keep(site: Site, watch: Watch, watched: Watched, seconds: float | None, by: str) -> None:
    """Puts the end of a session off by so many seconds, or by as many as may be (None).

    Raises `RequestError`, which says what would be granted; `NotFound`.
    """
    rule = site.idle.keep(watched.session)
    if not watched.checks:
        raise _refused("not_needed", "Nothing ends it by itself, so it need not be kept.")
    if rule is None:
        raise _refused("not_allowed", "Its policy does not let it be kept.")
    async with watched.deciding:
        watch.judge(watched)
        facts = watched.facts
        begins = max(watch.clock.now(), watched.ends_at or 0.0, facts.kept_until or 0.0)
        room = watched.room(watch.clock.now())
        if room < LEAST:
            raise _refused("lifetime", "Its lifetime ends it first, and that cannot be put off.")
        granted = _granted(rule, watched.kept, room, seconds)

        def extend(noted: IdleRecord) -> IdleRecord:
            # As it is noted: nobody else's word since we looked is passed over.
            _granted(rule, noted.kept, room, granted)
            until = max(begins, noted.kept_until or 0.0) + granted
            return replace(noted, kept=noted.kept + granted, kept_until=until)

        sentence = f"{by} keeps it for {limit_words(granted)}."
        record = await site.db(
            site.store.keep_session, watched.session.id, watched.record, extend, sentence, utcnow()
        )
        watched.kept, facts.kept_until = record.kept, record.kept_until
        watch.judge(watched)


def _granted(rule: Keep, kept: float, room: float, seconds: float | None) -> float:
    most = min(rule.each, max(0.0, rule.total - kept))
    if most <= 0:
        raise _refused(
            "used_up",
            f"It was kept for {limit_words(rule.total)}, which is all that its policy allows.",
        )
    most = float(int(min(most, room)))
    if seconds is None:
        return most
    if seconds > most:
        raise _refused(
            "too_much", f"It may be kept for {limit_words(most)} now. Ask for that, or for less."
        )
    if seconds < (least := min(LEAST, most)):
        raise _refused("too_little", f"It is kept for {limit_words(least)} at least.", Kind.INVALID)
    return seconds


def _refused(code: str, message: str, kind: Kind = Kind.CONFLICT) -> RequestError:
    return RequestError([FieldError(FIELD, code, message, kind)])
