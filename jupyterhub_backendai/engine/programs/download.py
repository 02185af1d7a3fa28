"""Downloads one image; a program of its own, so that it can be ended whatever it waits for.

Reads one line of JSON: `client` (arguments of Docker's client), `image`, `auth` (or null). Writes
lines of JSON: `[bytes done, bytes in all]` while it loads, and at its end `{}`, `{"missing": why}`
or `{"unreachable": why}`. It ends with its standard input, so it never outlives who started it.
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

TELL_EVERY = 1.0  # seconds between two lines on how far it is
MOST = 1000  # characters of a reason; a registry may answer with a whole page


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _say(_download(order["client"], order["image"], order["auth"]))
    except APIError as error:
        _say({"missing": str(error.explanation or error)[:MOST]})
    except (DockerException, requests.exceptions.RequestException, OSError) as error:
        _say({"unreachable": str(error)[:MOST]})


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _download(options: dict[str, Any], image: str, auth: dict[str, Any] | None) -> dict[str, str]:
    options = {**kwargs_from_env(), **options}
    if isinstance(options.get("tls"), dict):
        options["tls"] = docker.tls.TLSConfig(**options["tls"])
    client = docker.APIClient(**options)
    layers: dict[str, tuple[int, int]] = {}
    told = time.monotonic()
    for line in client.pull(image, stream=True, decode=True, auth_config=auth):
        if "error" in line:
            return {"missing": str(line["error"])[:MOST]}
        detail = line.get("progressDetail") or {}
        if line.get("status") == "Downloading" and detail.get("total"):
            layers[line["id"]] = (detail.get("current", 0), detail["total"])
        elif line.get("status") == "Download complete" and line.get("id") in layers:
            layers[line["id"]] = (layers[line["id"]][1],) * 2
        if layers and time.monotonic() - told > TELL_EVERY:
            told = time.monotonic()
            _say([sum(column) for column in zip(*layers.values(), strict=True)])
    return {}


def _say(what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
