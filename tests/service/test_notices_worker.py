"""Warnings by mail and webhook: a real service and store, a real mail server and receiver, and a
clock that the test moves."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from jupyterhub_backendai.engine.images import Room
from jupyterhub_backendai.model.notices import Mail, Webhook
from jupyterhub_backendai.model.slots import GIB
from jupyterhub_backendai.service.notify.addresses import Addresses
from jupyterhub_backendai.service.notify.channel import Channel, NotTaken, Pages
from jupyterhub_backendai.service.notify.mail import MailChannel, compose
from jupyterhub_backendai.service.notify.message import Message, when
from jupyterhub_backendai.service.notify.webhook import SIGNATURE, TIMESTAMP, WebhookChannel
from jupyterhub_backendai.service.workers.notices import NoticesWorker
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import NoticeKey, NoticeState, Return

from .image_shelf import CONTAINER, shelf_of
from .images_made import rest
from .moved_time import Time
from .receivers import Hook, Mailbox, certificate, mailbox, receiver, silence
from .running import running, until, until_open
from .test_idle_worker import HOUR, INTERVAL, Idle, idle

PAGE = "https://hub.example.org/services/backendai/sessions/"
LONG = "5m"  # for a message; no machine is that slow
SHORT = "1s"  # where a test waits for it to be over
SOME = "10s"  # the same, where the message has to be on its way before


@dataclass
class Warned:
    """A session that nobody has used for three hours of four, and who is told of that."""

    one: Idle
    channels: list[Channel]
    counted: Counter[tuple[str, str]] = field(default_factory=Counter)
    worker: NoticesWorker = None  # type: ignore[assignment]

    def begin(self) -> NoticesWorker:
        """The worker as after a start of the process."""
        self.worker = NoticesWorker(
            self.one.service.service.parts.site,
            lambda: self.one.worker.watch,
            self.channels,
            self.one.service.service.drops,
            lambda id: PAGE + id,
            lambda channel, outcome: self.counted.update([(channel, outcome)]),
        )
        self.worker.first_pause = 0.0
        return self.worker

    async def once(self, worker: NoticesWorker | None = None) -> None:
        """One look, until all that it began is over."""
        worker = worker or self.worker
        await worker.once()
        while worker._sending:
            await asyncio.gather(*worker._sending.values(), return_exceptions=True)

    async def pass_by(self, seconds: float, each: float = 60.0) -> None:
        """So much time, in which nobody uses the session."""
        end = self.one.time.boot + seconds
        while self.one.time.boot < end:
            await self.one.rounds(min(each, end - self.one.time.boot), each=each)
            await self.once()

    def states(self, channel: str = "mail") -> list[NoticeState]:
        found = self.one.service.store.notices()
        return [notice.state for notice in found if notice.key.channel == channel]


@asynccontextmanager
async def warned(
    folder: Path,
    mail: dict[str, Any] | None = None,
    webhook: dict[str, Any] | None = None,
    then: str = "end",
    warnings: tuple[int, ...] = (3600, 600),
    **backend: Any,
) -> AsyncIterator[Warned]:
    async with idle(folder, {"network": "4h", "then": then}, **backend) as one:
        one.service.service.parts.site.idle.warnings = warnings
        channels: list[Channel] = []
        if mail is not None:
            channels.append(MailChannel(Mail(**{"timeout": LONG, **mail})))
        if webhook is not None:
            channels.append(WebhookChannel(Webhook(**{"timeout": LONG, **webhook})))
        made = Warned(one, channels)
        made.begin()
        one.says(used=0)
        await one.rounds(INTERVAL)
        await one.rounds(3 * HOUR - 300, each=600)
        await made.once()
        assert made.states() == []
        try:
            yield made
        finally:
            await made.worker.stop()
            made.worker.close()


def secret_in(folder: Path) -> str:
    path = folder / "secret"
    path.write_text("s3cret\n")
    path.chmod(0o600)
    return str(path)


async def test_one_mail_for_each_warning_over_restarts(tmp_path: Path) -> None:
    async with mailbox() as box, warned(tmp_path, box.settings) as it:
        await it.pass_by(600)
        assert len(box.mails) == 1
        it.begin()
        await it.one.restart(down=0)
        await it.one.once()
        await it.pass_by(2400)
        assert len(box.mails) == 1
        await it.pass_by(400)
        it.begin()
        await it.pass_by(100)
        assert len(box.mails) == 2
        assert box.to == ["alice@example.org"] * 2
        assert it.counted == {("mail", "sent"): 2}
        left = await it.one.left()
        await it.pass_by(left + 2 * INTERVAL)
        assert not it.one.is_running
        assert len(box.mails) == 2

        mail, last = box.mails
        assert mail["Message-ID"] != last["Message-ID"]
        assert re.fullmatch(r"<[0-9a-f]{32}@example\.org>", mail["Message-ID"])
        assert abs(parsedate_to_datetime(mail["Date"]) - utcnow()).total_seconds() < 600
        assert (mail["From"], mail["To"]) == ("hub@example.org", "alice@example.org")
        assert mail["Auto-Submitted"] == "auto-generated"
        assert mail.get_content_type() == "text/plain"
        name = it.one.session.name
        assert mail["Subject"].startswith(f"Your session {name} will be ended at ")
        text = mail.get_content()
        assert f"{PAGE}{it.one.id}" in text
        assert "Nobody has used it, and after 4 hours of that it ends." in text
        assert "You may keep it for up to 2 hours more" in text
        assert re.search(r"in about (59|60) minutes|in about 1 hour", text), text
        assert re.search(r"in about (9|10) minutes", last.get_content()), last.get_content()


async def test_a_webhook_is_told_and_can_tell_who_it_was(tmp_path: Path) -> None:
    path = secret_in(tmp_path)
    async with (
        receiver() as hook,
        warned(tmp_path, webhook={"url": hook.url, "secret_file": path}) as it,
    ):
        await it.pass_by(600)
        await it.pass_by(600)
        ((headers, body),) = hook.got
        (told,) = hook.told
        signed = headers[TIMESTAMP].encode() + b"." + body
        expected = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
        assert headers[SIGNATURE] == f"sha256={expected}"
        assert abs(int(headers[TIMESTAMP]) - time.time()) < 600
        assert headers["Content-Type"] == "application/json"
        ends_at = datetime.fromisoformat(told.pop("ends_at"))
        assert ends_at.tzinfo == timezone.utc
        now = it.one.time.wall.timestamp()
        assert abs(ends_at.timestamp() - now - await it.one.left()) < 60
        assert told.pop("id").startswith(f"{it.one.id}-3600-")
        assert told == {
            "version": 1,
            "kind": "idle_warning",
            "session": {"id": it.one.id, "name": it.one.session.name},
            "owner": "alice",
            "warning": 3600,
            "check": "network",
            "reason": "Nobody has used it, and after 4 hours of that it ends. A running "
            "computation does not keep it.",
            "then": "ended",
            "url": f"{PAGE}{it.one.id}",
        }


async def test_what_is_used_or_kept_is_not_warned_of(tmp_path: Path) -> None:
    async with mailbox() as box, warned(tmp_path, box.settings) as it:
        it.one.says(used=0)
        await it.pass_by(2 * HOUR, each=300)
        assert box.mails == []
        await it.pass_by(HOUR + 600, each=300)
        assert len(box.mails) == 1
        assert (await it.one.keep()).status == 200
        await it.pass_by(HOUR - 600, each=300)
        assert len(box.mails) == 1, "it was kept"
        await it.pass_by(2 * HOUR - 900, each=300)
        assert len(box.mails) == 2, "and ends after all"


async def test_what_stopped_being_true_while_it_was_claimed_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with mailbox() as box, warned(tmp_path, box.settings) as it:
        await it.one.rounds(600)
        site = it.one.service.service.parts.site
        claim = site.store.claim_notice

        def slowly(*args: Any) -> Any:
            watch = it.one.worker.watch
            assert watch is not None
            now = watch.clock.now()
            watch.sessions[it.one.id].hear(now, now, now)  # its owner came back
            return claim(*args)

        monkeypatch.setattr(site.store, "claim_notice", slowly)
        await it.once()
        assert box.mails == []
        assert it.states() == [NoticeState.WAITING]


async def test_a_server_that_hangs_gets_no_mail_twice_and_delays_nobody(tmp_path: Path) -> None:
    async with mailbox() as box, receiver() as hook:
        box.hold = asyncio.Event()
        mail = {**box.settings, "timeout": SOME}
        async with warned(tmp_path, mail, {"url": hook.url}) as it:
            await it.one.rounds(600)
            await it.worker.once()
            await until(lambda: len(box.mails) == 1)
            await until(lambda: it.counted["webhook", "sent"] == 1)
            await it.worker.once()  # while it is on its way
            await it.once()
            assert it.states() == [NoticeState.UNSURE]
            it.begin()
            await it.pass_by(300)
            assert (len(box.mails), len(hook.got)) == (1, 1)
            assert it.counted == {("mail", "unsure"): 1, ("webhook", "sent"): 1}
        box.hold.set()


async def test_a_server_that_is_away_is_asked_again(tmp_path: Path) -> None:
    with silence() as port:
        async with mailbox() as box, warned(tmp_path, {**box.settings, "timeout": SHORT}) as it:
            (channel,) = it.channels
            assert isinstance(channel, MailChannel)
            good = channel._settings
            channel._settings = good.model_copy(update={"port": port})
            await it.pass_by(600)
            assert it.states() == [NoticeState.WAITING]
            assert box.mails == []
            (notice,) = it.one.service.store.notices()
            assert notice.attempts >= 1
            channel._settings = good
            channel.patience = 300.0
            it.begin()  # a restart forgets no message that waits
            await it.pass_by(120)
            assert len(box.mails) == 1
            assert it.states() == [NoticeState.SENT]
            assert it.counted["mail", "sent"] == 1
            assert it.counted["mail", "failed"] == notice.attempts


async def test_pauses_grow_between_two_tries(tmp_path: Path) -> None:
    async with mailbox() as box, warned(tmp_path, box.settings) as it:
        it.worker.first_pause = 1000.0
        box.rcpt = ["451 later"] * 10
        await it.pass_by(600)
        assert len(box.rcpt) == 9, "one try, and then a pause"
        pauses = []
        for _ in range(2):
            (again,) = it.worker._again.values()
            pauses.append(again - time.monotonic())
            it.worker._again.clear()
            await it.once()
        assert 0 < pauses[0] <= 600
        it.worker.first_pause = 1.0
        for _ in range(3):
            it.worker._again.clear()
            await it.once()
        (again,) = it.worker._again.values()
        assert 20 < again - time.monotonic() <= 2.0**5, "the sixth try"


@pytest.mark.parametrize(
    ("rcpt", "data", "state", "mails"),
    [
        (["550 who?"], [], NoticeState.REFUSED, 0),
        ([], ["554 no"], NoticeState.REFUSED, 0),
        (["451 later"], [], NoticeState.SENT, 1),
        ([], ["451 later"], NoticeState.SENT, 1),
    ],
)
async def test_what_a_mail_server_says(
    tmp_path: Path, rcpt: list[str], data: list[str], state: NoticeState, mails: int
) -> None:
    async with mailbox() as box, warned(tmp_path, box.settings) as it:
        box.rcpt, box.data = rcpt, data
        await it.pass_by(900)
        assert it.states() == [state]
        assert len(box.mails) == mails


async def test_a_password_goes_over_tls_only_and_to_whom_it_is_for(tmp_path: Path) -> None:
    context, ca = certificate(tmp_path)
    _, other = certificate(tmp_path, "other")
    async with mailbox(context) as box:
        login = {
            "user": "hub", "password_file": secret_in(tmp_path), "security": "starttls",
            "ca_file": other,
        }  # fmt: skip
        async with warned(tmp_path, {**box.settings, **login}) as it:
            await it.pass_by(600)
            assert it.states() == [NoticeState.WAITING]
            assert (box.mails, box.logins) == ([], []), "it is not who it says"
            it.channels[:] = [MailChannel(Mail(**{**box.settings, **login, "ca_file": ca}))]
            it.begin()
            await it.pass_by(300)
            assert it.states() == [NoticeState.SENT]
            assert box.logins == [(b"hub", b"s3cret")]
            assert box.secure == [True]


async def test_a_server_without_tls_gets_nothing(tmp_path: Path) -> None:
    async with (
        mailbox() as box,
        warned(tmp_path, {**box.settings, "security": "starttls"}) as it,
    ):
        await it.pass_by(600)
        assert box.mails == []
        assert it.states() == [NoticeState.WAITING]


async def test_a_kill_loses_one_at_most_and_doubles_none(tmp_path: Path) -> None:
    async with mailbox() as box, warned(tmp_path, box.settings) as it:
        await it.one.rounds(600)
        watch = it.one.worker.watch
        assert watch is not None
        ends_at = watch.sessions[it.one.id].ends_at
        assert ends_at is not None
        key = NoticeKey(it.one.id, "mail", 3600, round(ends_at))
        store = it.one.service.store
        assert store.claim_notice(key, "an earlier run", utcnow()) is not None
        it.begin()
        await it.pass_by(300)
        assert box.mails == []
        assert it.states() == [NoticeState.UNSURE]
        await it.pass_by(2700)
        assert len(box.mails) == 1, "the next one follows"


async def test_a_stop_in_the_middle_doubles_none_and_loses_none_that_was_not_begun(
    tmp_path: Path,
) -> None:
    async with mailbox() as box, warned(tmp_path, box.settings) as it:
        box.hold = asyncio.Event()
        await it.one.rounds(600)
        await it.worker.once()
        await until(lambda: len(box.mails) == 1)
        await it.worker.stop()
        assert it.states() == [NoticeState.UNSURE]
        box.hold.set()

    (tmp_path / "b").mkdir()
    with silence() as port:
        async with warned(tmp_path / "b", Mailbox(port).settings) as it:
            await it.one.rounds(600)
            await it.worker.once()
            store = it.one.service.store
            await until(lambda: it.states() == [NoticeState.CLAIMED])
            await it.worker.stop()
            assert it.states() == [NoticeState.WAITING]
            assert [notice.attempts for notice in store.notices()] == [1]


async def test_two_processes_send_one(tmp_path: Path) -> None:
    async with mailbox() as box, warned(tmp_path, box.settings) as it:
        await it.one.rounds(600)
        first = it.worker
        second = it.begin()
        second.site = _OtherRun(second.site)  # type: ignore[assignment]
        await asyncio.gather(it.once(first), it.once(second))
        await asyncio.gather(it.once(first), it.once(second))
        assert len(box.mails) == 1
        assert len(it.states()) == 1


class _OtherRun:
    """The same site, as another process has it."""

    run_id = "another"

    def __init__(self, site: Any) -> None:
        self._site = site

    def __getattr__(self, name: str) -> Any:
        return getattr(self._site, name)


@pytest.mark.parametrize(
    ("answer", "state", "times"),
    [
        (web.Response(status=500), NoticeState.SENT, 2),
        (web.Response(status=429), NoticeState.SENT, 2),
        (web.Response(status=410), NoticeState.REFUSED, 1),
        (web.Response(status=307, headers={"Location": "/elsewhere"}), NoticeState.REFUSED, 1),
        (web.Response(body=b"x" * 10_000_000), NoticeState.SENT, 1),
    ],
)
async def test_what_a_receiver_says(
    tmp_path: Path, answer: web.Response, state: NoticeState, times: int
) -> None:
    async with receiver() as hook, warned(tmp_path, webhook={"url": hook.url}) as it:
        hook.answers = [answer]
        await it.pass_by(900)
        assert it.states("webhook") == [state]
        assert len(hook.got) == times
        assert len({told["id"] for told in hook.told}) == 1


async def test_a_receiver_that_hangs_or_is_away(tmp_path: Path) -> None:
    async with receiver() as hook:
        hook.hold = asyncio.Event()
        async with warned(tmp_path, webhook={"url": hook.url, "timeout": SOME}) as it:
            await it.pass_by(900, each=300)
            assert len(hook.got) == 1
            assert it.states("webhook") == [NoticeState.UNSURE]
        hook.hold.set()
    (tmp_path / "b").mkdir()
    async with warned(tmp_path / "b", webhook={"url": hook.url}) as it:  # it is gone
        await it.pass_by(900, each=300)
        assert it.states("webhook") == [NoticeState.WAITING]


def message(**more: Any) -> Message:
    values: dict[str, Any] = {
        "key": NoticeKey("a" * 32, "mail", 600, 1_800_000_000),
        "name": "lab3",
        "owner": "alice",
        "ends_at": datetime(2026, 11, 23, 13, 5, tzinfo=timezone.utc),
        "left": 590.0,
        "by": "lifetime",
        "why": "Its lifetime of 7 days is over then.",
        "keep": 0.0,
        "url": "",
    }
    return Message(**{**values, **more})


def test_a_mail_of_odd_names_is_one_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "x\r\nBcc: all@example.org\r\n\r\n{0} <b> Ünïcode " + "y" * 300
    mail = compose(message(name=odd, owner=odd), "hub@example.org", "alice@example.org")
    raw = mail.as_bytes()
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"\nBcc" not in head
    assert b"\nBcc" not in body
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert "Ünïcode" in mail["Subject"]
    assert mail["To"] == "alice@example.org"


def test_times_are_in_the_zone_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 11, 23, 23, 5, tzinfo=timezone.utc)
    for zone, told in (
        ("CET-1CEST,M3.5.0,M10.5.0/3", "00:05 CET on Tuesday, 24 November 2026 (23:05 UTC)"),
        ("UTC0", "23:05 UTC on Monday, 23 November 2026"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv("TZ", zone)
            time.tzset()
            assert when(at) == told
            assert message(ends_at=at).subject.endswith(told.partition(" on ")[0])
    time.tzset()


def rule(**given: Any) -> Addresses:
    return Addresses(Mail(host="h", sender="hub@example.org", **given))


@pytest.mark.parametrize(
    "name",
    ["a b", "a@b", "a\nBcc: b", "<a>", "a,b", 'a"b', "ä", "", ".a", "a" * 65, "RCPT TO:<x@y>"],
)
async def test_names_that_are_no_part_of_an_address(name: str) -> None:
    with pytest.raises(NotTaken) as caught:
        await rule(domain="example.org").of(name)
    assert caught.value.for_good
    assert "\n" not in str(caught.value)


MODULE = """
import asyncio, time
def plain(name): return f"{name}@plain.example.org"
async def later(name):
    await asyncio.sleep(0)
    return f"{name}@later.example.org"
class Both:
    async def __call__(self, name): return f"{name}@both.example.org"
both = Both()
def none(name): return None
def odd(name): return "a@b.org, c@d.org"
def number(name): return 5
def fails(name): raise LookupError("no such user")
"""


async def test_a_function_says_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site_people.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("plain", "later", "both"):
        found = await rule(address=f"site_people:{name}").of("alice")
        assert found == f"alice@{name}.example.org"
    for name, for_good in (("none", True), ("odd", True), ("number", True), ("fails", False)):
        with pytest.raises(NotTaken) as caught:
            await rule(address=f"site_people:{name}").of("alice")
        assert caught.value.for_good == for_good
    assert await rule(domain="").of("alice@example.org") == "alice@example.org"


async def test_pages_know_which_warning_it_is(tmp_path: Path) -> None:
    async with warned(tmp_path) as it:
        it.worker.close()
        it.channels[:] = [Pages()]
        service = it.one.service.service
        service.notices = it.begin()
        call: Callable[..., Any] = it.one.service.call
        assert "data-tell" not in (await call("GET", "?part=warnings", "alice")).json
        await it.pass_by(600)
        first = it.worker.told(it.one.id)
        assert re.fullmatch(rf"{it.one.id}-3600-\d+", first)
        part = (await call("GET", "?part=warnings", "alice")).json
        assert f'data-tell="{first}"' in part
        await it.pass_by(600)
        it.begin()
        service.notices = it.worker
        await it.once()
        assert it.worker.told(it.one.id) == first, "a restart makes no new one of it"
        await it.pass_by(2200)
        assert re.fullmatch(rf"{it.one.id}-600-\d+", it.worker.told(it.one.id))
        assert it.worker.told("f" * 32) == ""


async def test_the_service_has_the_channels_that_are_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTERHUB_PUBLIC_URL", "https://hub.example.org/services/backendai/")
    box, hook = Mailbox(port=1), Hook(url="http://127.0.0.1:1/")
    async with running(
        tmp_path, notices_mail=box.settings, notices_webhook={"url": hook.url}
    ) as service:
        await until_open(service)
        worker = service.service.notices
        assert worker is not None
        assert [channel.name for channel in worker.channels] == ["pages", "mail", "webhook"]
        assert worker._page_of("abc") == f"{PAGE}abc"
        service.service.metrics.note_notice("mail", "sent")
        text = (await service.call("GET", "metrics", "admin")).json
        assert 'backendai_notices_total{channel="mail",outcome="sent"} 1.0' in text


async def test_a_secret_that_others_may_read_stops_the_start(tmp_path: Path) -> None:
    path = secret_in(tmp_path)
    os.chmod(path, 0o644)
    hook = {"url": "http://127.0.0.1:1/", "secret_file": path}
    async with running(tmp_path, notices_webhook=hook) as service:
        await until(lambda: "secret_file" in str(service.service.parts.problem))
        assert f"chmod 600 {path}" in str(service.service.parts.problem)


@pytest.mark.parametrize("warnings", [(3600, 600), (60,)], ids=["usual", "short"])
async def test_owners_are_told_that_it_is_not_hibernated_after_all(
    tmp_path: Path, warnings: tuple[int, ...]
) -> None:
    async with (
        receiver() as hook, mailbox() as box,
        warned(tmp_path, box.settings, {"url": hook.url}, "hibernate", warnings) as it,
    ):  # fmt: skip
        one = it.one
        shelf = shelf_of(one.service)
        shelf.rooms = Room(0, GIB)
        one.service.store.set_kernel(one.id, container_id=CONTAINER)
        while one.is_running:
            await it.pass_by(INTERVAL, each=INTERVAL)
        assert {body["then"] for body in hook.told[:-1]} == {"hibernated"}
        assert len(hook.told) == len(box.mails) == len(warnings) + 1
        assert (hook.told[-1]["then"], hook.told[-1]["warning"]) == ("ended", warnings[-1])
        assert "will be ended at" in box.mails[-1]["Subject"]
        text = " ".join(box.mails[-1].get_content().split())
        assert "It cannot be hibernated, so its home and what was installed go: The session" in text


async def test_owners_are_told_that_a_hibernated_session_is_dropped(
    tmp_path: Path,
) -> None:
    time = Time()
    async with (
        receiver() as hook, mailbox() as box,
        warned(tmp_path, box.settings, {"url": hook.url}) as it,
    ):  # fmt: skip
        service = it.one.service
        service.service.drops = time.drops
        it.begin()
        session = service.store.get(it.one.id)
        rest(service, session, timedelta(days=3))
        await it.one.once()
        await it.once()
        assert box.mails == []
        time.passes(2 * 86400 + 60)
        for _ in range(3):
            await it.once()
        assert len(box.mails) == len(hook.got) == 1
        text = box.mails[0].get_content()
        assert "will be dropped at" in box.mails[0]["Subject"]
        assert "Resume it if you need it." in text
        (body,) = hook.told
        assert (body["kind"], body["check"], body["warning"]) == (
            "drop_warning", "retention", 86400,
        )  # fmt: skip
        time.passes(86400 + 60)
        service.service.drops = time.drops
        it.begin()  # after a restart, when it should have been dropped already
        for _ in range(2):
            await it.once()
        assert len(box.mails) == 2
        assert "will be dropped at" in box.mails[1].get_content()
        assert "in about 1 hour" in " ".join(box.mails[1].get_content().split())
        # Resumed, there is nothing to tell.
        service.store.resume(session.id, Return("alice", (), None), utcnow())
        time.passes(3500)
        await it.once()
        assert len(box.mails) == 2
