"""The pages without a browser: what they call things, and what around them is whose."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest

from jupyterhub_backendai.model.status import Phase, Result, Status
from jupyterhub_backendai.service.pages import lists
from jupyterhub_backendai.service.pages.words import word
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Filter
from jupyterhub_backendai.store.tables import SESSIONS

from .running import PREFIX, Running, launch, until_open

OPTION = re.compile(r'<option value="([^"]+)"[^>]*>([^<]*)</option>')


async def test_filters_call_things_what_the_table_does(service: Running) -> None:
    await until_open(service)
    session = await launch(service, "alice", {"name": "words"})
    page = await service.call("GET", f"sessions/{session['id']}/history?phase=submit", "alice")
    offered = dict(OPTION.findall(page.json))
    everything = [*Phase, *Result, *Status]
    assert offered == {one.value: word(one) for one in everything}
    assert not {"submit", "NEED_RETRY", "PENDING"} & set(offered.values())
    assert '<option value="submit" selected>Submit</option>' in page.json
    assert '<td class="fw-semibold">Submit</td>' in page.json


async def test_the_tab_of_what_is_not_over_says_how_many_wait(service: Running) -> None:
    await until_open(service)
    await launch(service, "mate", {"name": "first"})
    await launch(service, "mate", {"name": "second"})
    page = (await service.call("GET", "", "mate")).json
    tabs = page.split('bk-tabs">')[1].split("</ul>")[0]
    assert "Current" in tabs
    assert "2 waiting" in tabs
    page = (await service.call("GET", "?name=second", "mate")).json
    assert "1 waiting" in page
    assert " waiting</span>" not in (await service.call("GET", "?name=neither", "mate")).json


@pytest.mark.parametrize("who", ["admin", "tutor", "alice"])
@pytest.mark.parametrize("name", ["", "/history"])
async def test_a_session_s_page_listens_to_its_owner_alone(
    service: Running, who: str, name: str
) -> None:
    """Also that of an admin, who may hear of everybody's."""
    await until_open(service)
    (session, *_), _ = service.store.list_sessions(Filter(owner="alice"))
    page = (await service.call("GET", f"sessions/{session.id}{name}", who)).json
    assert f'data-events="{"" if who == "alice" else "alice"}"' in page
    stream = {"owner": "alice"}
    assert await service.status_of_stream("api/events", who, stream) == 200


@pytest.mark.parametrize(("who", "to"), [("alice", "sessions/{id}"), ("ender", "")])
async def test_an_end_leads_to_what_became_of_it(service: Running, who: str, to: str) -> None:
    """From where its form is filled again; the list, where one may end but not look."""
    await until_open(service)
    session = await launch(service, "alice", {"name": f"ended-by-{who}"})
    reply = await service.call("POST", f"sessions/{session['id']}/end", who)
    assert (reply.status, reply.headers["Location"]) == (302, PREFIX + to.format(**session))
    page = await service.call("GET", f"sessions/{session['id']}", "alice")
    assert f'href="/services/backendai/launch?like={session["id"]}"' in page.json


def rows_of(page: str) -> str:
    """Which rows of how many a list says that it shows."""
    return re.findall(r'<span class="bk-quiet">(\d+ to \d+ of \d+)</span>', page)[0]


def tabs_of(page: str) -> list[str]:
    tabs = page.split('bk-tabs">')[1].split("</ul>")[0]
    return [unescape(href) for href in re.findall(r'href="([^"]*)"', tabs)]


async def test_past_its_end_a_list_is_at_its_last_page(
    service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "PER_PAGE", 5)
    await until_open(service)
    for number in range(7):
        await launch(service, "bob", {"name": f"job-{number}"})
    for address in ("?page=9", "?page=2", "?part=list&page=3"):
        page = (await service.call("GET", address, "bob")).json
        assert rows_of(page) == "6 to 7 of 7"
        assert "You have no session now." not in page
        assert 'rel="prev"' in page
        assert 'rel="next"' not in page
    page = (await service.call("GET", "?page=9&name=job-1", "bob")).json
    assert rows_of(page) == "1 to 1 of 1"
    page = (await service.call("GET", "?page=9&name=none-has-it", "bob")).json
    assert "No session matches." in page


async def test_past_its_end_a_history_is_at_its_last_page(service: Running) -> None:
    await until_open(service)
    session = await launch(service, "alice", {"name": "past-its-end"})
    page = (await service.call("GET", f"sessions/{session['id']}/history?page=7", "alice")).json
    assert rows_of(page).startswith("1 to ")
    assert "No record matches." not in page


async def test_the_other_tab_keeps_the_filter(service: Running) -> None:
    await until_open(service)
    await launch(service, "alice", {"name": "kept-by-tabs"})
    filters = "type=interactive&name=kept-by&sort=-name&page=1"
    page = (await service.call("GET", f"?{filters}", "alice")).json
    assert tabs_of(page) == [
        f"{PREFIX}?name=kept-by&type=interactive",
        f"{PREFIX}?name=kept-by&type=interactive&state=over",
    ]
    over = (await service.call("GET", "?state=over&name=none-has-it&owner=alice", "admin")).json
    clear = unescape(over.split('">Clear the filter')[0].rsplit('href="', 1)[1])
    assert clear == f"{PREFIX}?state=over&owner=alice"


async def test_a_list_is_in_the_order_that_its_head_says(service: Running) -> None:
    await until_open(service)
    waits = await launch(service, "mate", {"name": "since-waits"})
    runs = await launch(service, "mate", {"name": "since-runs"})
    long = utcnow() - timedelta(days=3)
    with service.store._write() as db:
        for session, column in ((waits, "submitted_at"), (runs, "running_at")):
            query = SESSIONS.update().where(SESSIONS.c.id == session["id"])
            at = long if session is waits else utcnow() + timedelta(seconds=5)
            db.execute(query.values({column: at}))
    for sort, order, first in (
        ("-began_at", "descending", runs), ("began_at", "ascending", waits),
    ):  # fmt: skip
        page = (await service.call("GET", f"?sort={sort}&name=since-", "mate")).json
        head = page.split('class="took" aria-sort="')[1]
        assert head.startswith(order)
        assert re.findall(r'<tr id="s-(\w+)">', page)[0] == first["id"]
        assert ">Since " in head


ODD = [
    "page=0", "page=x", "page=99999999999", "state=none", "type=odd", "sort=odd", "state=",
    f"owner={'a' * 300}", "phase=odd&result=odd&to_status=odd",
]  # fmt: skip


async def test_what_an_address_cannot_mean_is_left_out(service: Running) -> None:
    await until_open(service)
    session = await launch(service, "alice", {"name": "odd-address"})
    for query in ODD:
        page = await service.call("GET", f"?{query}", "alice")
        assert (page.status, "odd-address" in page.json) == (200, True), query
        history = await service.call("GET", f"sessions/{session['id']}/history?{query}", "alice")
        assert (history.status, rows_of(history.json)) == (200, "1 to 1 of 1"), query


async def test_you_are_who_reads_it(service: Running) -> None:
    """A session's reason, wherever it is shown; the API has it as it is kept."""
    await until_open(service)
    session = await launch(service, "mate", {"name": "whose-words"})
    await service.call("DELETE", f"api/sessions/{session['id']}", "mate")
    own = f"sessions/{session['id']}"
    pages = ["?state=over&owner=mate", own, f"{own}/history"]
    for who, said in (("mate", "You ended it."), ("admin", "mate ended it.")):
        for path in (*pages, *(["notices"] if who == "mate" else [])):
            page = (await service.call("GET", path, who)).json
            row = page.split("whose-words", 1)[1]
            assert said in row, (who, path)
            assert ("You ended it." in row) is (who == "mate"), (who, path)
    kept = await service.call("GET", f"api/sessions/{session['id']}", "mate")
    assert kept.json["reason"] == "mate ended it."
