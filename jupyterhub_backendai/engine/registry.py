"""What is asked of a registry itself: to delete an image. Docker has no call for that.

Signing in by name and password, or by the token that the registry's own token server gives for
them. TLS as Docker has it: a registry's own certificate authority is in `/etc/docker/certs.d`, and
without TLS only what is on this machine, or what Docker was told is so.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import requests
from docker.auth import INDEX_NAME, resolve_repository_name
from requests.auth import HTTPBasicAuth

from .images import Login, RegistryRefused

CERTIFICATES = Path("/etc/docker/certs.d")
TIMEOUT = 30.0  # seconds without an answer
MOST = 300  # characters of what a registry says
_PART = re.compile(r'(\w+)="([^"]*)"')


def delete(
    reference: str, digest: str, login: Login | None, says: Collection[Mapping[str, Any]] = ()
) -> None:
    """Deletes the image of that digest; it is fine where there is none. `says`: what Docker on the
    agents says of itself, for registries that have no TLS. Raises `RegistryRefused`."""
    host, name = resolve_repository_name(reference.partition("@")[0])
    if host == INDEX_NAME:
        raise RegistryRefused("Docker Hub deletes no images by this way. Delete it on its pages.")
    name = name[: name.rindex(":")] if ":" in name.rpartition("/")[2] else name
    path = f"/v2/{name}/manifests/{digest}"
    try:
        with requests.Session() as session:
            session.trust_env = False  # no proxy, and nobody's .netrc
            answer = _ask(session, host, path, login, says)
    except requests.exceptions.RequestException as error:
        raise RegistryRefused(words(f"{host} does not answer: {error}", login)) from error
    if answer.status_code in {200, 202, 404}:
        return
    raise RegistryRefused(words(_why(host, answer), login))


def words(text: str, login: Login | None) -> str:
    """What a registry says, without what we signed in with."""
    if login is not None:
        pair = f"{login.user}:{login.password}".encode()
        for secret in (login.password, base64.b64encode(pair).decode()):
            text = text.replace(secret, "…") if secret else text
    return text[:MOST]


def _ask(
    session: requests.Session,
    host: str,
    path: str,
    login: Login | None,
    says: Collection[Mapping[str, Any]],
) -> requests.Response:
    own = CERTIFICATES / host / "ca.crt"
    session.verify = str(own) if own.is_file() else True
    without = _without_tls(host, says)
    if without:
        session.verify = False
    try:
        return _delete(session, f"https://{host}{path}", login)
    except requests.exceptions.SSLError:
        if not without:
            raise
    except requests.exceptions.ConnectionError:
        if not without:
            raise
    return _delete(session, f"http://{host}{path}", login)


def _delete(session: requests.Session, url: str, login: Login | None) -> requests.Response:
    auth = HTTPBasicAuth(login.user.encode(), login.password.encode()) if login else None
    # A redirect would take name and password to wherever it leads.
    answer = session.delete(url, auth=auth, timeout=TIMEOUT, allow_redirects=False)
    offer = answer.headers.get("WWW-Authenticate", "")
    if answer.status_code != 401 or not offer.lower().startswith("bearer "):
        return answer
    said = dict(_PART.findall(offer))
    if not said.get("realm", "").startswith("https://" if url.startswith("https") else "http"):
        return answer
    asked = {name: said[name] for name in ("service", "scope") if name in said}
    given = session.get(
        said["realm"], params=asked, auth=auth, timeout=TIMEOUT, allow_redirects=False
    )
    if not given.ok:
        return given
    token = _token(given)
    bearer = {"Authorization": f"Bearer {token}"}
    return session.delete(url, headers=bearer, timeout=TIMEOUT, allow_redirects=False)


def _token(given: requests.Response) -> str:
    """What a token server gave; empty where that is none, which the registry then refuses."""
    try:
        said = given.json()
    except ValueError:
        return ""
    found = said.get("token") or said.get("access_token") if isinstance(said, dict) else ""
    return str(found or "")


def _without_tls(host: str, says: Collection[Mapping[str, Any]]) -> bool:
    """Whether Docker takes a registry without TLS: one on this machine, or one that it was told."""
    bare = host.rsplit(":", 1)[0].strip("[]")
    if bare == "localhost":
        return True
    try:
        if ipaddress.ip_address(bare).is_loopback:
            return True
    except ValueError:
        pass
    for said in says:
        known = ((said.get("RegistryConfig") or {}).get("IndexConfigs") or {}).get(host) or {}
        if known.get("Secure") is False:
            return True
    return False


def _why(host: str, answer: requests.Response) -> str:
    if answer.status_code == 405:
        return (
            f"{host} allows no deletes (405), so the image stays there. Its admin switches them "
            "on; Docker's own registry has REGISTRY_STORAGE_DELETE_ENABLED=true for that."
        )
    if answer.status_code in {401, 403}:
        return (
            f"{host} does not let us delete ({answer.status_code}). Check user and password, and "
            "that this user may delete there."
        )
    text = " ".join(answer.text.split())
    return f"{host} answers {answer.status_code}: {text}"
