"""Amounts: exact, as people write them, and nothing else."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.model.errors import Problem
from jupyterhub_backendai.model.slots import (
    GIB,
    KIB,
    MAX_AMOUNT,
    MIB,
    TIB,
    Limits,
    Slots,
    format_bytes,
    format_slot,
    format_thousandths,
    parse_bytes,
    parse_cpu,
    parse_fgpu,
)

thousandths = st.integers(0, MAX_AMOUNT)


@given(thousandths)
def test_what_is_written_is_read_again(amount: int) -> None:
    assert parse_fgpu(format_thousandths(amount)) == amount
    assert parse_cpu(format_thousandths(amount)) == amount


@given(st.integers(0, 10**9))
def test_a_float_from_json_is_the_number_that_was_written(amount: int) -> None:
    assert parse_fgpu(float(f"{amount // 1000}.{amount % 1000:03}")) == amount


def test_shares_add_up_exactly() -> None:
    assert 3 * parse_fgpu(0.1) == parse_fgpu(0.3) == parse_fgpu("0.3") == 300
    assert 0.1 * 3 != 0.3  # which is why


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        (2, 2000),
        (2.0, 2000),
        ("2", 2000),
        ("0.5", 500),
        (".5", 500),
        (" 1.25 ", 1250),
        ("0001", 1000),
        ("1.000000000", 1000),
        (0, 0),
        (-0.0, None),
    ],
)
def test_numbers_as_people_write_them(text: object, amount: int | None) -> None:
    if amount is None:
        with pytest.raises(Problem):
            parse_cpu(text)
    else:
        assert parse_cpu(text) == amount


NO_NUMBERS = [
    True, False, None, "", " ", "one", "1,5", "1_000", "+1", "-1", -1, -0.5, "1e3", "1E-3", "0x10",
    float("nan"), float("inf"), float("-inf"), "nan", "inf", "Infinity", 1e300, 1e-300, 10**400,
    -(10**400), "9" * 400, "1." + "0" * 400, "٣", "１", "½", "²", "1.", "..1", "1.2.3", [1],
    {"a": 1}, b"1", 1j, Decimal(1), "1\x00", "1\n2", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda v: ascii(v)[:20])
def test_no_numbers(value: object) -> None:
    for parse in (parse_cpu, parse_fgpu):
        with pytest.raises(Problem) as caught:
            parse(value)
        assert caught.value.code == "not_a_number"
        assert len(caught.value.message) < 100
    with pytest.raises(Problem):
        parse_bytes(value)


@pytest.mark.parametrize("value", ["0.0001", "1.2345", 0.0005, 0.123456])
def test_more_than_three_decimals_are_refused_and_not_rounded(value: object) -> None:
    with pytest.raises(Problem, match="too fine: use at most three decimals"):
        parse_cpu(value)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("4g", 4 * GIB),
        ("4G", 4 * GIB),
        ("4GB", 4 * GIB),
        ("4GiB", 4 * GIB),
        ("4Gi", 4 * GIB),
        ("4 gb", 4 * GIB),
        ("512m", 512 * MIB),
        ("1.5t", 3 * TIB // 2),
        (".5g", GIB // 2),
        ("64k", 64 * KIB),
        ("1p", MAX_AMOUNT),
        ("100", 100),
        ("100b", 100),
        (4 * GIB, 4 * GIB),
        (1024.0, 1024),
        ("0", 0),
    ],
)
def test_sizes_as_people_write_them(text: object, amount: int) -> None:
    assert parse_bytes(text) == amount


@pytest.mark.parametrize(
    "text",
    ["4x", "g", "4gg", "4ib", "4 g b", "-4g", "4g4g", "1.1p", "2048t", "4\u212a", "４g", "1e3m"],
)
def test_no_sizes(text: str) -> None:
    with pytest.raises(Problem, match="such as 4g, 4GiB or 512m"):
        parse_bytes(text)


@given(st.integers(0, 2**13), st.sampled_from([(1, "b"), (KIB, "k"), (MIB, "MiB"), (GIB, "GB")]))
def test_sizes_are_binary_and_exact(number: int, unit: tuple[int, str]) -> None:
    assert parse_bytes(f"{number}{unit[1]}") == number * unit[0]


@given(st.integers(0, MAX_AMOUNT))
def test_a_size_is_never_shown_as_more_than_it_is(amount: int) -> None:
    shown = format_bytes(amount)
    if "byte" in shown:
        assert amount < KIB
        shown = shown.split()[0]
    read = parse_bytes(shown)
    assert read <= amount
    assert amount - read <= amount / 100 + 1


def test_sizes_in_sentences() -> None:
    assert format_bytes(4 * GIB) == "4 GB"
    assert format_bytes(3 * GIB // 2) == "1.5 GB"
    assert format_bytes(1) == "1 byte"
    assert format_bytes(0) == "0 bytes"
    assert format_bytes(-GIB) == "-1 GB"
    assert format_slot("cpu", 1000) == "1 CPU core"
    assert format_slot("cpu", 500) == "0.5 CPU cores"
    assert format_slot("mem", GIB) == "1 GB of memory"
    assert format_slot("fgpu", 1500) == "1.5 FGPU"


@given(st.text() | st.integers() | st.floats() | st.booleans() | st.none() | st.binary())
def test_parsing_anything_gives_an_amount_or_a_problem(value: object) -> None:
    for parse in (parse_cpu, parse_fgpu, parse_bytes):
        amount, message = 0, "-"
        try:
            amount = parse(value)
        except Problem as problem:
            message = problem.message
        assert type(amount) is int
        assert 0 <= amount <= MAX_AMOUNT
        assert message.isprintable()
        assert 0 < len(message) < 150


slots = st.builds(Slots, thousandths, thousandths, thousandths)


@given(slots, slots)
def test_slots_add_compare_and_say_what_is_lacking(a: Slots, b: Slots) -> None:
    assert a + b - b == a
    assert a.fits(a + b)
    assert a.fits(b) == (a.lacking(b) == ())
    assert (a - b).floor() + b == Slots(max(a.cpu, b.cpu), max(a.mem, b.mem), max(a.fgpu, b.fgpu))
    assert Slots(**a.as_dict()) == a


@given(slots, slots)
def test_limits(limit: Slots, used: Slots) -> None:
    limits = Limits(limit.cpu, limit.mem, limit.fgpu, sessions=3)
    left = limits.left(used)
    assert (left.cpu, left.mem, left.fgpu, left.sessions) == (
        max(0, limit.cpu - used.cpu),
        max(0, limit.mem - used.mem),
        max(0, limit.fgpu - used.fgpu),
        3,
    )
    assert Limits().left(used) == Limits()
