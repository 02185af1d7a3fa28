"""Pushes one image; a program of its own, so that it can be ended whatever it waits for.

Reads one line of JSON: `client` (arguments of Docker's client), `image`, `auth` (or null). Writes
lines of JSON: `[bytes done, bytes in all]` while it sends, and at its end `{"digest": …}`,
`{"refused": why}` or `{"unreachable": why}`. It ends with its standard input, so it never outlives
who started it.
"""

import json
import os
import sys
import threading
import time
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException
from docker.utils import kwargs_from_env

TELL_EVERY = 0.5  # seconds between two lines on how far it is
MOST = 1000  # characters of a reason; a registry may answer with a whole page


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _say(_push(order["client"], order["image"], order["auth"]))
    except APIError as error:
        _say({"refused": str(error.explanation or error)[:MOST]})
    except (DockerException, requests.exceptions.RequestException, OSError) as error:
        _say({"unreachable": str(error)[:MOST]})


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _push(options: dict[str, Any], image: str, auth: dict[str, Any] | None) -> dict[str, str]:
    options = {**kwargs_from_env(), **options}
    if isinstance(options.get("tls"), dict):
        options["tls"] = docker.tls.TLSConfig(**options["tls"])
    client = docker.APIClient(**options)
    layers: dict[str, tuple[int, int]] = {}
    told, digest = time.monotonic(), ""
    for line in client.push(image, stream=True, decode=True, auth_config=auth):
        if "error" in line:
            return {"refused": str(line["error"])[:MOST]}
        digest = (line.get("aux") or {}).get("Digest") or digest
        _note(layers, line)
        if layers and time.monotonic() - told > TELL_EVERY:
            told = time.monotonic()
            _tell(layers)
    if not digest:
        return {"refused": "it did not say which image it has now"}
    if layers:
        _tell(layers)
    return {"digest": digest}


def _note(layers: dict[str, tuple[int, int]], line: dict[str, Any]) -> None:
    """Of layers that are sent: bytes done, bytes in all."""
    name, detail = line.get("id", ""), line.get("progressDetail") or {}
    if line.get("status") == "Pushing" and detail.get("current"):
        done = int(detail["current"])
        layers[name] = (done, max(done, int(detail.get("total") or 0)))
    elif line.get("status") == "Pushed" and name in layers:
        layers[name] = (layers[name][1],) * 2


def _tell(layers: dict[str, tuple[int, int]]) -> None:
    _say([sum(column) for column in zip(*layers.values(), strict=True)])


def _say(what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
