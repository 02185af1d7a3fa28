"""The launcher's page without a browser: what it takes, what it gives back, and to whom."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from jupyterhub_backendai.model.spec import MAX_VARIABLES
from jupyterhub_backendai.service.pages.base import MOST_FIELDS
from jupyterhub_backendai.service.pages.launcher import verdict_of
from jupyterhub_backendai.service.schemas import Outlook
from jupyterhub_backendai.site.form_rules import FORM_FIELDS
from jupyterhub_backendai.store import Filter

from .running import Reply, Running, until_open

FORM = {"type": "interactive", "environment": "python", "version.python": "3.11"}
HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}


async def post(
    service: Running, who: str | None, path: str = "launch",
    headers: Mapping[str, str] = {}, **fields: str,
) -> Reply:  # fmt: skip
    await until_open(service)
    service.report_agent()
    body = urlencode({**FORM, **fields})
    return await service.call("POST", path, who, data=body, headers={**HEADERS, **headers})


def names(service: Running, owner: str = "alice") -> list[str]:
    found, _ = service.store.list_sessions(Filter(owner=owner))
    return [session.name for session in found]


async def test_a_post_launches_and_leads_to_the_list(service: Running) -> None:
    reply = await post(service, "alice", name="from-form")
    (session,) = service.store.list_sessions(Filter(owner="alice", name="from-form"))[0]
    assert reply.status == 303
    assert reply.headers["Location"] == (
        f"/services/backendai/?launched={session.id}#s-{session.id}"
    )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": "batch"}, "bk-command"),
        ({"name": "a"}, "bk-name"),
        ({"count": "0"}, "bk-count"),
        ({"priority": "99"}, "bk-priority"),
        ({"depends_on_names": "nothing"}, "bk-depends_on"),
        ({"type": "batch", "command": "x", "starts_at": "soon"}, "bk-starts_at"),
        ({"type": "batch", "command": "x", "timeout": "long"}, "bk-timeout"),
    ],
)
async def test_what_is_wrong_is_at_its_field(
    service: Running, fields: dict[str, str], field: str
) -> None:
    reply = await post(service, "alice", **fields)
    assert 400 <= reply.status < 500
    assert f'href="#{field}"' in reply.json
    said = reply.json.split(f'id="{field}-error"')[1].split("</div>")[0]
    assert said.split(">", 1)[1].strip()


async def test_a_policy_allows_nothing_that_the_page_has_inline(service: Running) -> None:
    await until_open(service)
    reply = await service.call("GET", "launch?name=x%22%3E%3Cscript%3E", "alice")
    main = reply.json.split("<main")[1].split("</main>")[0]
    assert "style=" not in main
    assert "<script>" not in main
    assert "'unsafe" not in reply.headers["Content-Security-Policy"]


async def test_what_nobody_signed_in_typed_comes_back_to_them(service: Running) -> None:
    here = {"Origin": service.url.split("/services")[0]}
    await until_open(service)
    before = names(service)
    reply = await post(service, None, headers=here, name="kept", command="a\n<b>")
    assert reply.status == 401
    assert "You were signed out" in reply.json
    assert "a\n<b>" in unescape(reply.json)
    assert "<b>" not in reply.json
    assert names(service) == before
    again = await post(service, "alice", name="kept", fill="again")
    assert (again.status, names(service)) == (200, before)
    assert 'value="kept"' in again.json


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://elsewhere.example"}])
async def test_a_page_of_somebody_else_s_is_given_nothing_back(
    service: Running, headers: dict[str, str]
) -> None:
    reply = await post(service, None, headers=headers, command="evil")
    assert reply.status == 401
    assert "evil" not in reply.json


async def test_the_verdict_is_the_server_s(service: Running) -> None:
    reply = await post(service, "alice", "launch?part=verdict")
    assert reply.json == {
        "verdict": {"code": "now", "text": "Starts now.", "why": ""}, "errors": [],
    }  # fmt: skip
    reply = await post(service, "alice", "launch?part=verdict", cpu="1000", name="a")
    assert reply.json["verdict"] is None
    assert {error["field"] for error in reply.json["errors"]} == {"name", "resources.cpu"}


@pytest.mark.parametrize(
    ("ahead", "starts_in", "text"),
    [
        (2, 720.0, "Waits about 12 min, 2 ahead of you."),
        (0, 720.0, "Waits about 12 min."),
        (2, None, "Waits, 2 ahead of you."),
        (0, None, "Waits in the queue."),
        (0, 1.0, "Waits about 1 min."),
    ],
)
def test_how_a_wait_is_told(ahead: int, starts_in: float | None, text: str) -> None:
    outlook = Outlook(code="waits", text="All cores are in use.", ahead=ahead, starts_in=starts_in)
    assert verdict_of(outlook) == {"code": "waits", "text": text, "why": "All cores are in use."}


async def test_only_who_may_launches_for_others(service: Running) -> None:
    reply = await post(service, "alice", owner="bob", name="for-bob")
    assert reply.status == 403
    assert "You can do this for yourself only." in reply.json
    reply = await post(service, "admin", owner="bob", name="for-bob")
    assert reply.status == 303
    assert names(service, "bob") == ["for-bob"]
    assert (await post(service, "admin", owner="bob", quick="default")).status == 303
    assert len(names(service, "bob")) == 2


async def test_another_s_session_and_launch_fill_nothing(service: Running) -> None:
    await post(service, "alice", name="mine-alone")
    (session,) = service.store.list_sessions(Filter(owner="alice", name="mine-alone"))[0]
    (launch, *_) = service.store.launches("alice")
    reply = await service.call("GET", f"launch?like={session.id}", "bob")
    assert reply.status == 404
    reply = await service.call("GET", f"launch?again={launch.id}", "bob")
    assert "mine-alone" not in reply.json
    assert "It is not known any more what was launched." in reply.json
    reply = await service.call("GET", f"launch?again={launch.id}", "alice")
    assert "As it was launched before." in reply.json


async def test_who_acts_for_others_starts_theirs_again_for_them(service: Running) -> None:
    """The Hub's page of somebody else's server leads an admin here too."""
    await post(service, "bob", name="bobs-own")
    (session,) = service.store.list_sessions(Filter(owner="bob", name="bobs-own"))[0]
    reply = await service.call("GET", f"launch?like={session.id}", "admin")
    assert "Start a session for bob" in reply.json
    assert 'name="owner"' in reply.json
    reply = await service.call("GET", f"launch?like={session.id}", "bob")
    assert "Start a session for" not in reply.json


@pytest.mark.parametrize("who", ["reader", "ender", "tutor", "narrow"])
async def test_a_token_without_the_scope_launches_nothing(service: Running, who: str) -> None:
    await until_open(service)
    before = names(service)
    reply = await post(service, who, name="by-reader")
    assert reply.status == 403
    assert names(service) == before
    assert (await service.call("GET", "launch", who)).status == 403


async def test_too_large_a_form(service: Running) -> None:
    reply = await post(service, "alice", command="x" * 1024 * 1024)
    assert reply.status == 413


async def test_no_more_rows_come_back_than_a_session_may_have(service: Running) -> None:
    await until_open(service)
    variables = [("env_name", f"{i}!") for i in range(300)] + [("env_value", "x")] * 300
    folders = [("new_folder", f"folder-{i}") for i in range(300)]
    for fill in ("again", "owner"):
        body = urlencode([*FORM.items(), *variables, *folders, ("fill", fill)])
        reply = await service.call("POST", "launch", "alice", data=body, headers=HEADERS)
        assert reply.status == 200
        assert reply.json.count("bk-envrow") <= MAX_VARIABLES + 2  # with two blank ones
        assert f'id="bk-env-{MAX_VARIABLES - 1}"' in reply.json
        assert "folder-100" not in reply.json
        assert "There can be at most 100 variables. Those after that are left out." in reply.json
        assert "There can be at most 100 folders. Those after that are left out." in reply.json


async def test_a_form_of_too_many_fields(service: Running) -> None:
    await until_open(service)
    body = urlencode([("env_name", "A")] * (MOST_FIELDS + 1))
    reply = await service.call("POST", "launch", "alice", data=body, headers=HEADERS)
    assert reply.status == 400
    assert "A form has at most 1000 fields." in reply.json


async def test_a_user_is_given_two_forms_at_a_time(service: Running) -> None:
    await until_open(service)
    bodies = [urlencode({**FORM, "fill": "again"})] * 6

    async def post(who: str, body: str) -> int:
        return (await service.call("POST", "launch", who, data=body, headers=HEADERS)).status

    own, other = await asyncio.gather(
        asyncio.gather(*(post("alice", body) for body in bodies)), post("bob", bodies[0])
    )
    assert set(own) == {200, 429}
    assert other == 200
    assert await post("alice", bodies[0]) == 200


def ticket_of(page: str) -> str:
    return page.split('name="ticket" value="')[1].split('"')[0]


async def test_a_form_that_is_posted_twice_is_launched_once(service: Running) -> None:
    await until_open(service)
    page = (await service.call("GET", "launch", "alice")).json
    ticket = ticket_of(page)
    assert len(ticket) > 20
    both = await asyncio.gather(
        *(post(service, "alice", name="only-one", ticket=ticket) for _ in range(2))
    )
    later = await post(service, "alice", name="only-one", ticket=ticket)
    assert {reply.status for reply in (*both, later)} == {303}
    assert len({reply.headers["Location"] for reply in (*both, later)}) == 1
    assert names(service).count("only-one") == 1


async def test_another_form_is_another_launch(service: Running) -> None:
    """One that was changed, another page's, and another user's with the same ticket."""
    await until_open(service)
    before = len(names(service, "bob"))
    tickets = [ticket_of((await service.call("GET", "launch", "alice")).json) for _ in range(2)]
    for who, ticket in [("alice", tickets[0]), ("alice", tickets[1]), ("bob", tickets[0])]:
        assert (await post(service, who, ticket=ticket, count="2")).status == 303
    changed = await post(service, "alice", ticket=tickets[0], count="2", name="changed")
    assert changed.status == 303
    assert names(service).count("changed-1") == 1
    assert len(names(service, "bob")) == before + 2


async def test_a_form_that_was_refused_may_come_again(service: Running) -> None:
    form = {"type": "batch", "command": "true", "ticket": "again", "depends_on_names": "first-one"}
    assert (await post(service, "alice", "launch", {}, **form)).status == 400
    first = {"type": "batch", "command": "true", "name": "first-one"}
    assert (await post(service, "alice", "launch", {}, **first)).status == 303
    assert (await post(service, "alice", "launch", {}, **form)).status == 303


async def test_an_empty_list_of_somebody_leads_to_a_launch_for_them(service: Running) -> None:
    await until_open(service)
    service.hub.add("nobody & co")
    page = (await service.call("GET", "?owner=nobody+%26+co", "admin")).json
    assert "START for nobody &amp; co" in page
    link = unescape(page.split("START for nobody")[0].rsplit('href="', 1)[1].split('"')[0])
    form = await service.call("GET", link.removeprefix("/services/backendai/"), "admin")
    assert "Start a session for nobody &amp; co" in form.json
    assert 'name="owner" value="nobody &amp; co"' in form.json
    for who, path in (("watcher", "?owner=nobody+%26+co"), ("admin", "?name=none&owner=*")):
        page = (await service.call("GET", path, who)).json
        assert "START for" not in page


async def test_who_may_not_act_for_somebody_is_told_so_by_the_form(service: Running) -> None:
    await until_open(service)
    form = await service.call("GET", "launch?for=bob", "alice")
    assert "You can do this for yourself only." in form.json
    assert "for bob</h1>" not in form.json


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("command=x&env_name=A&env_value=b", "left out: command, env_name, env_value."),
        ("command=x&Call+0800+now=1", "left out: command and 1 other."),
        ("Call+0800=1&evil=2&also.evil=3", "left out: 3 others."),
    ],
)
async def test_a_link_does_not_speak_through_names(service: Running, query: str, told: str) -> None:
    await until_open(service)
    page = (await service.call("GET", f"launch?cpu=1&{query}", "alice")).json
    note = unescape(page.split('id="bk-note"')[1].split("</div></div>")[0])
    assert told in note
    assert "0800" not in note
    assert "evil" not in note


def test_the_form_s_fields_are_those_of_its_script() -> None:
    script = Path("share/static/backendai/launcher/fields.js").read_text()
    (names,) = re.findall(r"^const FIELDS = /\^\((.*)\)\$/;$", script, re.MULTILINE)
    found = {name.removesuffix(r"\..+") for name in names.split("|")}
    assert found == FORM_FIELDS
