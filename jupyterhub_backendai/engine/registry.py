"""What is asked of a registry itself: to delete an image, and what a tag is of. Docker has no call
for that.

Signing in by name and password, or by the token that the registry's own token server gives for
them. TLS as Docker has it: a registry's own certificate authority is in `/etc/docker/certs.d`, and
without TLS only what is on this machine, or what Docker was told is so.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import requests
from docker.auth import INDEX_NAME, resolve_repository_name
from requests.auth import HTTPBasicAuth

from .images import Login, RegistryRefused

CERTIFICATES = Path("/etc/docker/certs.d")
TIMEOUT = 30.0  # seconds without an answer
MOST = 300  # characters of what a registry says
MANIFESTS = ", ".join(
    (
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
    )
)
_PART = re.compile(r'(\w+)="([^"]*)"')


def delete(
    reference: str, digest: str, login: Login | None, says: Collection[Mapping[str, Any]] = ()
) -> None:
    """Deletes the image of that digest; it is fine where there is none. `says`: what Docker on the
    agents says of itself, for registries that have no TLS. Raises `RegistryRefused`."""
    with _Place.of(reference, login, says) as place:
        place.delete(digest)


def named(
    reference: str, login: Login | None, says: Collection[Mapping[str, Any]] = ()
) -> str | None:
    """The digest of what a reference names; None: nothing. Raises `RegistryRefused`."""
    with _Place.of(reference, login, says) as place:
        return _digest(place.manifest(place.tag))


def put_right(
    reference: str,
    digest: str | None,
    login: Login | None,
    says: Collection[Mapping[str, Any]] = (),
) -> None:
    """Has the reference name the image of that digest again, if that is there, and deletes what it
    names instead. Raises `RegistryRefused`."""
    with _Place.of(reference, login, says) as place:
        there = _digest(place.manifest(place.tag))
        if there == digest:
            return
        earlier = None if digest is None else place.manifest(digest)
        if earlier is not None:
            # First: a registry may take a tag away with what it named.
            place.name(place.tag, earlier)
        if there is not None:
            place.delete(there)


def words(text: str, login: Login | None) -> str:
    """What a registry says, without what we signed in with."""
    if login is not None:
        pair = f"{login.user}:{login.password}".encode()
        for secret in (login.password, base64.b64encode(pair).decode()):
            text = text.replace(secret, "…") if secret else text
    return text[:MOST]


class _Place:
    """The place of one image in its registry, and who asks there."""

    def __init__(
        self,
        session: requests.Session,
        host: str,
        name: str,
        login: Login | None,
        says: Collection[Mapping[str, Any]],
    ) -> None:
        self.session, self.host, self.login = session, host, login
        has_tag = ":" in name.rpartition("/")[2]
        self.repository, _, self.tag = name.rpartition(":") if has_tag else (name, "", "latest")
        self._without_tls = _without_tls(host, says)
        own = CERTIFICATES / host / "ca.crt"
        session.verify = False if self._without_tls else str(own) if own.is_file() else True

    @classmethod
    @contextmanager
    def of(
        cls, reference: str, login: Login | None, says: Collection[Mapping[str, Any]]
    ) -> Iterator[_Place]:
        """Around what is asked. Raises `RegistryRefused`."""
        host, name = resolve_repository_name(reference.partition("@")[0])
        if host == INDEX_NAME:
            raise RegistryRefused(
                "Docker Hub deletes no images by this way. Delete it on its pages."
            )
        try:
            with requests.Session() as session:
                session.trust_env = False  # no proxy, and nobody's .netrc
                yield cls(session, host, name, login, says)
        except requests.exceptions.RequestException as error:
            raise RegistryRefused(words(f"{host} does not answer: {error}", login)) from error

    def delete(self, digest: str) -> None:
        """Deletes what has that digest; it is fine where that is not there."""
        self._ask("DELETE", digest, {200, 202, 404})

    def manifest(self, what: str) -> requests.Response | None:
        """What a tag or a digest names; None: nothing."""
        found = self._ask("GET", what, {200, 404}, headers={"Accept": MANIFESTS})
        return found if found.status_code == 200 else None

    def name(self, tag: str, manifest: requests.Response) -> None:
        """Has the tag name that."""
        kind = {"Content-Type": manifest.headers.get("Content-Type", "")}
        self._ask("PUT", tag, {200, 201, 202}, headers=kind, data=manifest.content)

    def _ask(self, method: str, what: str, fine: Collection[int], **more: Any) -> requests.Response:
        path = f"/v2/{self.repository}/manifests/{what}"
        try:
            answer = self._send(method, f"https://{self.host}{path}", **more)
        except requests.exceptions.ConnectionError:  # no TLS is one, too
            if not self._without_tls:
                raise
            answer = self._send(method, f"http://{self.host}{path}", **more)
        if answer.status_code not in fine:
            raise RegistryRefused(words(_why(self.host, answer), self.login))
        return answer

    def _send(self, method: str, url: str, **more: Any) -> requests.Response:
        login = self.login
        auth = HTTPBasicAuth(login.user.encode(), login.password.encode()) if login else None
        # A redirect would take name and password to wherever it leads.
        ask = partial(self.session.request, timeout=TIMEOUT, allow_redirects=False)
        answer = ask(method, url, auth=auth, **more)
        offer = answer.headers.get("WWW-Authenticate", "")
        if answer.status_code != 401 or not offer.lower().startswith("bearer "):
            return answer
        said = dict(_PART.findall(offer))
        if not said.get("realm", "").startswith("https://" if url.startswith("https") else "http"):
            return answer
        asked = {name: said[name] for name in ("service", "scope") if name in said}
        given = ask("GET", said["realm"], params=asked, auth=auth)
        if not given.ok:
            return given
        bearer = {**more.pop("headers", {}), "Authorization": f"Bearer {_token(given)}"}
        return ask(method, url, headers=bearer, **more)


def _digest(manifest: requests.Response | None) -> str | None:
    return None if manifest is None else f"sha256:{hashlib.sha256(manifest.content).hexdigest()}"


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
