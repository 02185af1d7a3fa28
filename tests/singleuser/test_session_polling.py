"""What a request or a message says of whoever sent it; by the clock that a test turns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.session import Session
from jupyter_server.services.kernels.connection.base import (
    serialize_binary_message,
    serialize_msg_to_ws_v1,
)

from jupyterhub_backendai.singleuser.server import polling
from jupyterhub_backendai.singleuser.server.polling import ASKED, NOTHING, USED

WORDS = {NOTHING: "nothing", ASKED: "asked", USED: "used"}


def beats(times: list[float], size: int = 20) -> list[str]:
    """What messages of that size at those times count as."""
    clock = iter(times)
    judge = polling.Heartbeats(lambda: next(clock))
    return [WORDS[judge(size)] for _ in times]


def test_small_messages_that_come_evenly_keep_a_connection() -> None:
    evenly = [0.0, 5.0, 10.1, 14.9, 20.0, 25.5, 30.0]
    assert beats(evenly) == ["used", "used", *["asked"] * 5]
    assert beats(evenly, 1000) == ["used"] * 7, "not small"
    typed = [0.0, 0.1, 0.2, 0.3, 0.4]
    assert beats(typed) == ["used"] * 5, "a key that is held down"
    read = [0.0, 30.0, 75.0, 95.0, 160.0]
    assert beats(read) == ["used"] * 5, "somebody turns pages"


def test_heartbeats_of_several_sizes_are_told_from_what_is_typed_between_them() -> None:
    now = 0.0
    judge = polling.Heartbeats(lambda: now)
    found = []
    for now, size in [(0, 13), (1, 40), (5, 13), (10, 13), (12, 7), (15, 13), (31, 40), (61, 40)]:  # noqa: B007
        found.append(WORDS[judge(size)])
    assert found == ["used", "used", "used", "asked", "used", "asked", "used", "asked"]


def messages(kind: str, content: dict) -> list[tuple[Any, str | None]]:
    """The message as each protocol has it."""
    session = Session(key=b"")
    message = session.msg(kind, content)
    text = {**message, "channel": "shell", "buffers": []}
    return [
        (json.dumps(text, default=str), None),
        (serialize_binary_message({**text, "buffers": [b"x" * 9]}), None),
        (
            serialize_msg_to_ws_v1(message, "shell", session.pack),
            polling.KERNEL_PROTOCOL,
        ),
    ]


OUTPUT = {"method": "update", "state": {"outputs": [{"text": "tick"}]}}
SLIDER = {"method": "update", "state": {"value": 3}}


@pytest.mark.parametrize(
    ("kind", "content", "judged"),
    [
        ("execute_request", {"code": "x"}, USED),
        ("complete_request", {"code": "x"}, USED),
        ("input_reply", {"value": "x"}, USED),
        ("comm_open", {"comm_id": "1", "data": {}}, USED),
        ("comm_msg", {"comm_id": "1", "data": SLIDER}, USED),
        ("comm_msg", {"comm_id": "1", "data": OUTPUT}, NOTHING),
        ("comm_msg", {"data": {"method": "custom", "content": {"type": "ack"}}}, NOTHING),
        ("comm_msg", {"data": {"method": "custom", "content": {"type": "click"}}}, USED),
        ("kernel_info_request", {}, ASKED),
        ("comm_info_request", {}, ASKED),
    ],
)
def test_messages_to_a_kernel(kind: str, content: dict, judged: int) -> None:
    for message, protocol in messages(kind, content):
        assert polling.kernel_message(message, protocol) == judged, (message, protocol)


@given(st.binary() | st.text(), st.sampled_from([None, polling.KERNEL_PROTOCOL]))
def test_what_is_no_message_is_nothing(message: bytes | str, protocol: str | None) -> None:
    assert polling.kernel_message(message, protocol) == NOTHING
    assert polling.terminal_message(message) == NOTHING


@pytest.mark.parametrize(
    ("message", "judged"),
    [
        (["stdin", "l"], USED),
        (["stdin", "\r"], USED),
        (["stdin", "\x1b[A"], USED),  # the arrow up
        (["stdin", "\x1b[<0;10;5M"], USED),  # a click
        (["stdin", "\x1b[12;40R"], ASKED),  # where the cursor stands
        (["stdin", "\x1b[?1;2c\x1b[>0;276;0c"], ASKED),  # what the terminal is
        (["stdin", "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"], ASKED),  # its colour
        (["stdin", "\x1b[I"], ASKED),  # its window has the focus
        (["stdin", "\x1b[?1;2cx"], USED),
        (["stdin", ""], ASKED),
        (["set_size", 24, 80], ASKED),
        (["drawn", 100], NOTHING),
    ],
)
def test_messages_to_a_terminal(message: list, judged: int) -> None:
    assert polling.terminal_message(json.dumps(message)) == judged


BASE = "/user/me/lab/"


def request(judge: polling.Requests, line: str, body: bytes | None = b"", **headers: str) -> int:
    method, address = line.split(" ")
    path, _, query = address.partition("?")
    return judge(method, BASE + path, query, headers, body)


def test_what_is_sent_again_as_it_was_is_polling() -> None:
    judge = polling.Requests(BASE)
    for line, body, judged in [
        ("POST git/repo/status", b"{}", USED),  # as jupyterlab-git asks, all the time
        ("POST git/repo/status", b"{}", ASKED),
        ("POST git/repo/commit", b'{"m": 1}', USED),
        ("POST git/repo/status", b"{}", ASKED),
        ("POST git/repo/commit", b'{"m": 2}', USED),
        ("PUT lab/api/settings/theme", b"1", USED),
        ("PUT lab/api/settings/theme", b"1", ASKED),
        ("PUT lab/api/settings/theme", b"2", USED),
        ("PUT lab/api/workspaces/default", b"1", ASKED),  # by itself, after each command
        ("PUT lab/api/workspaces/default", b"2", ASKED),
        ("POST api/kernels/1/restart", b"", USED),
        ("POST api/kernels/1/restart", b"", USED),  # by somebody, each time
        ("POST api/events", b"{}", ASKED),
        ("POST backendai/app/shiny/xhr_streaming", None, ASKED),
        ("POST backendai/app/shiny/xhr_send", None, USED),
        ("POST backendai/app/shiny/xhr_send", None, USED),
        ("OPTIONS backendai/app/x/", None, ASKED),
        ("GET lab/api/settings/new", b"", ASKED),
        ("GET proxy/8080/data", b"", USED),
        ("GET proxy/8080/data", b"", ASKED),
    ]:
        assert request(judge, line, body) == judged, line


@given(st.binary(), st.binary())
def test_another_text_is_another_text(one: bytes, other: bytes) -> None:
    judge = polling.Requests(BASE)
    assert request(judge, "PUT api/contents/x", one) == USED
    assert request(judge, "PUT api/contents/x", other) == (ASKED if one == other else USED)


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["type", "content", "cells", "source"]), x)))  # fmt: skip
def test_whatever_is_saved_means_something(model: Any) -> None:
    assert isinstance(polling.meaning(json.dumps(model).encode()), bytes)


def test_no_more_is_remembered_than_that() -> None:
    seen = polling.Remembered(3)
    assert [seen.news(name, b"1") for name in "abcabc"] == [True] * 3 + [False] * 3
    assert seen.news("d", b"1")
    assert not seen.news("c", b"1")
    assert seen.news("a", b"1"), "forgotten"
