#!/usr/bin/env python3
"""Carries SSH to a session of a JupyterHub where only HTTPS gets through. For your own machine.

In ~/.ssh/config:

    Host train1
        User work
        IdentityFile ~/.ssh/id_container
        ProxyCommand python3 ~/.ssh/backendai-ssh.py https://hub.example.org/user/me/train1/

Your Hub token goes into ~/.ssh/backendai-token, a file that only you can read, or into the variable
BACKENDAI_TOKEN. You get one at the Hub, on the page "Token". Needs Python 3.7 or newer, no more.
"""

import base64
import hashlib
import os
import socket
import ssl
import stat
import sys
import threading
from urllib.parse import urlsplit

TOKEN_FILE = "~/.ssh/backendai-token"  # noqa: S105 - a name
TOKEN_VARIABLE = "BACKENDAI_TOKEN"  # noqa: S105 - a name
PATIENCE = 30  # seconds for the connection and the answer to it; the SSH server may have to start
CHUNK = 65536  # bytes
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455
CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
SAID = {
    401: "The Hub does not take your token. Make a new one on its page Token.",
    403: "The Hub does not take your token for this session. Make a new one on its page Token.",
    404: "There is no such session, or it has no SSH. Is it running?",
    424: "The session does not run. Start it at the Hub.",
    503: "The session does not answer, or its SSH server cannot start. Look at SSH among its apps.",
}


class Failed(Exception):
    """Something went wrong that its user can read."""


def token():
    """The Hub token of whoever runs this."""
    given = os.environ.get(TOKEN_VARIABLE, "").strip()
    if given:
        return given
    path = os.path.expanduser(TOKEN_FILE)
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise Failed(f"Others can read {path}. Run: chmod 600 {path}")
            given = plain(file.read(4096))
    except FileNotFoundError:
        raise Failed(f"Put your Hub token into {path} (and run: chmod 600 {path}).") from None
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}.") from None
    if not given.isprintable() or not given or " " in given:
        raise Failed(f"{path} has no token in it.")
    return given


def plain(data):
    """Text as editors on any system write it."""
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    return data.decode("utf-16" if wide else "utf-8-sig", "replace").strip()


class Tls:
    """A connection by TLS on which one thread may read while another writes, which OpenSSL does not
    allow on its own."""

    def __init__(self, sock, host):
        self._socket, self._lock, self._turn = sock, threading.Lock(), threading.Lock()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._until(self._tls.do_handshake)

    def _until(self, work):
        """What `work` gives, when enough has come from the other side."""
        while True:
            with self._lock:
                try:
                    done, found = True, work()
                except ssl.SSLWantReadError:
                    done, found = False, None
            self._flush(False)
            if done:
                return found
            data = self._socket.recv(CHUNK)
            with self._lock:
                if data:
                    self._in.write(data)
                else:
                    self._in.write_eof()

    def _flush(self, wait):
        """Sends what there is to send; where another does so already, it does that too."""
        while self._out.pending and self._turn.acquire(wait):
            try:
                with self._lock:
                    data = self._out.read()
                self._socket.sendall(data)
            finally:
                self._turn.release()

    def recv(self, size):
        try:
            return self._until(lambda: self._tls.read(size))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def sendall(self, data):
        with self._lock:
            self._tls.write(data)
        self._flush(True)

    def settimeout(self, seconds):
        self._socket.settimeout(seconds)


class WebSocket:
    """A websocket as far as SSH needs it: bytes there and back."""

    def __init__(self, url, secret):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Failed("Give the session's address, as https://hub.example.org/user/me/train1/")
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        try:
            sock = socket.create_connection((parts.hostname, port), PATIENCE)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if secure:
                sock = Tls(sock, parts.hostname)
        except (OSError, ssl.SSLError) as error:
            raise Failed(f"{parts.hostname} cannot be reached: {error}.") from None
        self._socket, self._rest = sock, b""
        self._sending = threading.Lock()
        self._open(parts, secret)
        sock.settimeout(None)

    def _open(self, parts, secret):
        key = base64.b64encode(os.urandom(16))
        path = parts.path.rstrip("/") + "/backendai/ssh"
        head = (
            f"GET {path} HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key.decode()}\r\nAuthorization: token {secret}\r\n\r\n"
        )
        self._socket.sendall(head.encode("utf-8"))
        answer = b""
        while b"\r\n\r\n" not in answer:
            data = self._socket.recv(CHUNK)
            if not data or len(answer) > CHUNK:
                raise Failed("The Hub broke off. Try again in a moment.")
            answer += data
        head, _, self._rest = answer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = int((lines[0].split() + ["0", "0"])[1]) if lines[0].startswith("HTTP/") else 0
        if status in (301, 302, 303, 307, 308):
            status = 403  # to the sign-in
        if status != 101:
            raise Failed(SAID.get(status, f"The Hub answered {status}. Is the session running?"))
        fields = {
            k.strip().lower(): v.strip() for k, _, v in (li.partition(":") for li in lines[1:])
        }
        wanted = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()  # noqa: S324
        if fields.get("sec-websocket-accept") != wanted:
            raise Failed("What answers is no websocket.")

    def send(self, data, kind=BINARY):
        """One frame, masked as a client has to."""
        mask, size = os.urandom(4), len(data)
        if size < 126:
            head = bytes([0x80 | kind, 0x80 | size])
        elif size < 65536:
            head = bytes([0x80 | kind, 0x80 | 126]) + size.to_bytes(2, "big")
        else:
            head = bytes([0x80 | kind, 0x80 | 127]) + size.to_bytes(8, "big")
        with self._sending:
            self._socket.sendall(head + mask + _masked(data, mask))

    def receive(self):
        """The next bytes; none at the end."""
        while True:
            first, second = self._exactly(2)
            size = second & 0x7F
            if size > 125:
                size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
            mask = self._exactly(4) if second & 0x80 else None
            data = self._exactly(size)
            if mask:
                data = _masked(data, mask)
            kind = first & 0x0F
            if kind == CLOSE:
                return b""
            if kind == PING:
                self.send(data, PONG)
            elif kind in (CONTINUED, TEXT, BINARY) and data:
                return data

    def _exactly(self, size):
        parts, missing = [self._rest[:size]], size - len(self._rest)
        self._rest = self._rest[size:]
        while missing > 0:
            data = self._socket.recv(min(missing, 1 << 20))
            if not data:
                raise EOFError
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)


def _masked(data, mask):
    size = len(data)
    key = mask * (size // 4 + 1)
    return (int.from_bytes(data, "big") ^ int.from_bytes(key[:size], "big")).to_bytes(size, "big")


def upwards(web):
    """What SSH writes, to the session."""
    try:
        while True:
            data = os.read(0, CHUNK)
            if not data:
                break
            web.send(data)
        web.send(b"\x03\xe8", CLOSE)
    except OSError:
        pass  # the session has ended it; whoever reads says so


def main(arguments):
    if len(arguments) != 2 or arguments[1].startswith("-"):
        print(__doc__)
        return 2
    try:
        web = WebSocket(arguments[1], token())
    except Failed as failure:
        print(f"backendai-ssh: {failure}", file=sys.stderr)
        return 1
    threading.Thread(target=upwards, args=(web,), daemon=True).start()
    try:
        while True:
            data = web.receive()
            if not data:
                return 0
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
    except (EOFError, OSError):
        return 0  # the session or the SSH client has ended it; SSH says so itself


if __name__ == "__main__":
    status = main(sys.argv)
    sys.stdout.flush()
    os._exit(status)  # not held up by the thread that waits for SSH's words
