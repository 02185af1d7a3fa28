"""The pages without a browser: what they call things, and what around them is whose."""

from __future__ import annotations

import re

import pytest

from jupyterhub_backendai.model.status import Phase, Result, Status
from jupyterhub_backendai.service.pages.words import word
from jupyterhub_backendai.store import Filter

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
