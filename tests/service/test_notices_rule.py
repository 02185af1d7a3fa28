"""Which warning is due: once for each end, however it moves, and never of what is used."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.service.notify.rule import ahead, due, knows, nearest, slack
from jupyterhub_backendai.store import Notice, NoticeKey, NoticeState

HOUR, MINUTE = 3600.0, 60.0
WARNINGS = st.sets(st.integers(60, 7200), min_size=1, max_size=4).map(tuple)
LIMITS = st.floats(300, 1e6)


def notice(
    warning: int, ends_at: float, state: NoticeState = NoticeState.SENT, channel: str = "mail"
) -> Notice:
    return Notice(NoticeKey("s" * 32, channel, warning, round(ends_at)), state, 1)


def told(
    warnings: tuple[int, ...], limit: float, moments: list[tuple[float, float | None]]
) -> list[tuple[float, int, float]]:
    """What is sent, at what time, of what end, where the end is as these moments say."""
    notices: list[Notice] = []
    sent = []
    for now, ends_at in moments:
        found = None if ends_at is None else due(warnings, ends_at, limit, now, notices)
        if found is not None and ends_at is not None:
            assert found.earlier is None
            notices.append(notice(found.warning, ends_at))
            sent.append((now, found.warning, ends_at))
    return sent


def steps(start: float, end: float, each: float) -> list[float]:
    return [start + n * each for n in range(round((end - start) / each) + 1)]


def test_an_end_is_told_at_each_time_once() -> None:
    moments = [(now, 4 * HOUR) for now in steps(0, 4 * HOUR + 60, 15)]
    found = told((3600, 600), 4 * HOUR, moments)
    assert [(now, warning) for now, warning, _ in found] == [
        (3 * HOUR, 3600), (4 * HOUR - 600, 600),
    ]  # fmt: skip


def test_who_comes_late_is_told_the_nearest_alone() -> None:
    assert nearest((3600, 600, 60), 300, 4 * HOUR) == 600
    found = told((3600, 600), 4 * HOUR, [(now, 1000.0) for now in steps(700, 990, 5)])
    assert [warning for _, warning, _ in found] == [600]
    assert nearest((3600,), 0, HOUR) is None
    assert nearest((), 10, HOUR) is None


def test_a_session_that_is_used_gets_no_mail_though_its_limit_is_no_longer_than_a_warning() -> None:
    moments = [(now, now // 1500 * 1500 + HOUR) for now in steps(0, 20 * HOUR, 15)]
    assert told((3600, 600), HOUR, moments) == []


def test_who_used_it_after_a_warning_is_warned_again_and_who_kept_it_is_not_at_once() -> None:
    end = 4 * HOUR
    before = [(now, end) for now in steps(3 * HOUR, end - 300, 15)]
    kept = [(now, end + 2400) for now in steps(end - 290, end + 2400, 15)]
    found = told((3600, 600), 4 * HOUR, before + kept)
    assert [warning for _, warning, _ in found] == [3600, 600, 600]
    used = [(now, end + 3.5 * HOUR) for now in steps(end - 290, end + 3.5 * HOUR, 15)]
    found = told((3600, 600), 4 * HOUR, before + used)
    assert [warning for _, warning, _ in found] == [3600, 600, 3600, 600]


def test_an_end_that_comes_much_nearer_is_told_again() -> None:
    end = 10 * HOUR
    found = told((7200, 600), 24 * HOUR, [(end - 7000, end), (end - 6900, end - 5000)])
    assert [warning for _, warning, _ in found] == [7200, 7200]


@given(WARNINGS, LIMITS, st.lists(st.floats(-1, 1), min_size=20, max_size=200))
def test_an_end_that_drifts_is_told_once_at_each_time(
    warnings: tuple[int, ...], limit: float, drifts: list[float]
) -> None:
    least = min(slack(one, limit) for one in warnings) / 2
    span = max(ahead(one, limit) for one in warnings) * 1.2
    end = 1e6
    moments = [
        (end - span + number * span / len(drifts), end + drift * least * 0.99)
        for number, drift in enumerate(drifts)
    ]
    sent = [warning for _, warning, _ in told(warnings, limit, moments)]
    assert len(sent) == len(set(sent))


@given(WARNINGS, LIMITS)
def test_whoever_is_ended_was_told(warnings: tuple[int, ...], limit: float) -> None:
    end = 1e6
    last = min(warnings)
    moments = [(end - 2 * 7200 + n * 14400 / 500, end) for n in range(500)]
    seen = [w for now, w, _ in told(warnings, limit, moments) if end - now <= ahead(w, limit)]
    assert seen
    if ahead(last, limit) > 30:  # longer than a step
        assert seen[-1] == last


@given(
    WARNINGS, LIMITS, st.floats(0, 20000),
    st.lists(
        st.tuples(st.integers(60, 7200), st.floats(-5000, 5000), st.sampled_from(NoticeState)),
        max_size=5,
    ),
)  # fmt: skip
def test_what_is_due(
    warnings: tuple[int, ...],
    limit: float,
    left: float,
    before: list[tuple[int, float, NoticeState]],
) -> None:
    now, end = 1e6, 1e6 + left
    notices = [notice(warning, end + moved, state) for warning, moved, state in before]
    found = due(warnings, end, limit, now, notices)
    if found is None:
        return
    assert 0 < left <= ahead(found.warning, limit) <= found.warning
    assert ahead(found.warning, limit) <= limit / 2
    assert found.warning == nearest(warnings, left, limit)
    for one in notices:
        if one.state is not NoticeState.WAITING:
            assert not knows(one, found.warning, end, limit)
    if found.earlier is not None:
        assert found.earlier in notices
        assert found.earlier.state is NoticeState.WAITING
        assert found.earlier.key.warning == found.warning
