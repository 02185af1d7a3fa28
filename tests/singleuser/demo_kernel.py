"""A kernel that writes on after it has answered, as a computation does."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.session import Session

INFO = {
    "status": "ok", "protocol_version": "5.3", "implementation": "demo", "banner": "",
    "implementation_version": "1", "language_info": {"name": "none", "version": "1",
    "mimetype": "text/plain", "file_extension": ".txt"},
}  # fmt: skip


class Kernel:
    def __init__(self, said: dict[str, Any]) -> None:
        self._session = Session(key=said["key"].encode(), signature_scheme=said["signature_scheme"])
        self._said = said
        self.shell, self.control = (
            self._bind(zmq.ROUTER, "shell"),
            self._bind(zmq.ROUTER, "control"),
        )
        self.stdin, self.hb = self._bind(zmq.ROUTER, "stdin"), self._bind(zmq.REP, "hb")
        self.iopub = self._bind(zmq.PUB, "iopub")

    def _bind(self, kind: int, name: str) -> Any:
        made = zmq.Context.instance().socket(kind)
        made.linger = 0
        made.bind(f"{self._said['transport']}://{self._said['ip']}:{self._said[name + '_port']}")
        return made

    def run(self) -> None:
        poller = zmq.Poller()
        for one in (self.shell, self.control, self.hb):
            poller.register(one, zmq.POLLIN)
        cause, count, going = None, 0, True
        while going:
            ready = dict(poller.poll(20 if cause else None))
            if self.hb in ready:
                self.hb.send(self.hb.recv())
            for one in (self.shell, self.control):
                if one in ready:
                    kind, message = self._answer(one)
                    cause = message if kind == "execute_request" else cause
                    going = kind != "shutdown_request"
            if cause:
                count += 1
                self._publish("stream", {"name": "stdout", "text": f"tick {count}\n"}, cause)

    def _answer(self, link: Any) -> tuple[str, dict]:
        who, message = self._session.recv(link, mode=0)
        kind = message["header"]["msg_type"]
        self._publish("status", {"execution_state": "busy"}, message)
        content = INFO if kind == "kernel_info_request" else {"status": "ok", "execution_count": 1}
        reply = kind.replace("_request", "_reply")
        self._session.send(link, reply, content, parent=message, ident=who)
        self._publish("status", {"execution_state": "idle"}, message)
        return kind, message

    def _publish(self, kind: str, content: dict, parent: dict) -> None:
        self._session.send(self.iopub, kind, content, parent=parent, ident=kind.encode())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when it is asked to
    Kernel(json.loads(Path(sys.argv[1]).read_text())).run()
