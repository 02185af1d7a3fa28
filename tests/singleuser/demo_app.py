"""A small app with what apps do: `python demo_app.py PORT`."""

from __future__ import annotations

import asyncio
import json
import sys

from tornado import web, websocket


class Echo(web.RequestHandler):
    """What it was asked, as JSON."""

    def get(self) -> None:
        request = self.request
        self.set_header("Content-Type", "application/json")
        headers = [[name, value] for name, value in request.headers.get_all()]
        body = request.body.decode("latin1")
        self.finish(
            json.dumps(
                {"method": request.method, "uri": request.uri, "headers": headers, "body": body}
            )
        )

    post = put = patch = delete = get


class Stream(web.RequestHandler):
    """As many bytes as were asked for, with or without a length."""

    async def get(self, size: str) -> None:
        left, chunk = int(size), bytes(1 << 20)
        if self.get_argument("length", ""):
            self.set_header("Content-Length", size)
        while left:
            self.write(chunk[:left])
            left -= min(left, len(chunk))
            await self.flush()

    head = get


@web.stream_request_body
class Count(web.RequestHandler):
    """How many bytes it was sent."""

    size = 0

    def prepare(self) -> None:
        self.request.connection.set_max_body_size(1 << 40)  # type: ignore[union-attr]

    def data_received(self, chunk: bytes) -> None:
        self.size += len(chunk)

    def post(self) -> None:
        self.finish(str(self.size))


@web.stream_request_body
class Refuses(web.RequestHandler):
    """Answers before it has been sent all."""

    def prepare(self) -> None:
        self.set_status(413)
        self.finish("too much")

    def data_received(self, chunk: bytes) -> None:
        pass

    def post(self) -> None:
        pass


class Events(web.RequestHandler):
    """An event, and another when somebody has asked for `/next`."""

    waiting: list = []

    async def get(self) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.write("data: one\n\n")
        await self.flush()
        event = asyncio.Event()
        self.waiting.append(event)
        await event.wait()
        self.write("data: two\n\n")
        await self.flush()


class Next(web.RequestHandler):
    def get(self) -> None:
        for event in Events.waiting:
            event.set()


class Answer(web.RequestHandler):
    """Headers that are to be rewritten, or not."""

    def get(self) -> None:
        self.set_status(int(self.get_argument("status", "302")))
        for line in self.get_arguments("header"):
            name, _, value = line.partition(":")
            self.add_header(name, value)
        self.finish()


class Talk(websocket.WebSocketHandler):
    """Says what is said to it; `close` ends with a code of its own."""

    def select_subprotocol(self, subprotocols: list[str]) -> str | None:
        return "demo.v2" if "demo.v2" in subprotocols else None

    def on_message(self, message: str | bytes) -> None:
        if message == "close":
            self.close(4321, "as you wish")
        elif message == "headers":
            self.write_message(json.dumps(dict(self.request.headers)))
        else:
            self.write_message(message, binary=isinstance(message, bytes))


class Half(web.RequestHandler):
    """Ends in the middle of its answer."""

    async def get(self) -> None:
        self.set_header("Content-Length", "1000")
        self.write("only this")
        await self.flush()
        self.request.connection.close()  # type: ignore[union-attr]


async def main() -> None:
    routes = [
        (r"/stream/(\d+)", Stream),
        ("/count", Count),
        ("/refuses", Refuses),
        ("/events", Events),
        ("/next", Next),
        ("/answer", Answer),
        ("/talk", Talk),
        ("/half", Half),
        ("/.*", Echo),
    ]
    print("demo app of", sys.argv[1:], flush=True)
    app = web.Application(routes, websocket_max_message_size=1 << 26)
    app.listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
