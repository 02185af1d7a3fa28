"""An app as somebody may write one in a session: pages, its headers back, a websocket, events.

It is sent into the containers as it is: Tornado, which every Jupyter has, and nothing else.
"""

import asyncio
import json
import sys

from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

CHUNK = bytes(1 << 20)


class Front(RequestHandler):
    def get(self):
        self.set_cookie("own", "of the app")
        self.set_cookie("_xsrf", "of the app", path="/")
        self.set_header("Clear-Site-Data", '"cookies"')
        self.finish("<!DOCTYPE html><title>App</title><h1>It is here</h1>")


class Echo(RequestHandler):
    def get(self):
        self.finish(json.dumps([list(pair) for pair in self.request.headers.get_all()]))

    async def post(self):
        self.finish(str(len(self.request.body)))


class Big(RequestHandler):
    async def get(self, megabytes):
        self.set_header("Content-Length", str(int(megabytes) << 20))
        for _ in range(int(megabytes)):
            self.write(CHUNK)
            await self.flush()


class Events(RequestHandler):
    async def get(self):
        self.set_header("Content-Type", "text/event-stream")
        self.write("data: first\n\n")
        await self.flush()
        await asyncio.sleep(3600)


class Socket(WebSocketHandler):
    def check_origin(self, origin):
        return True

    def on_message(self, message):
        self.write_message(message, binary=isinstance(message, bytes))


async def main():
    routes = [
        ("/", Front),
        ("/echo", Echo),
        (r"/big/(\d+)", Big),
        ("/events", Events),
        ("/ws", Socket),
    ]
    Application(routes).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


asyncio.run(main())
