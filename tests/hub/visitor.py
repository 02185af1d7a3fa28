"""A person in front of a Hub's pages, without a browser."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import requests


def sign_in(hub_url: str, user: str, password: str = "secret") -> requests.Session:
    """Signed in as a browser would be: with cookies, and by the login form."""
    visitor = requests.Session()
    assert visitor.get(f"{hub_url}/hub/login", timeout=30).status_code == 200
    data = {"username": user, "password": password, "_xsrf": visitor.cookies["_xsrf"]}
    home = quote(f"{urlsplit(hub_url).path}/hub/home", safe="")
    reply = visitor.post(f"{hub_url}/hub/login?next={home}", data=data, timeout=30)
    assert reply.status_code == 200, reply.text
    assert reply.url.endswith("/hub/home"), reply.url
    return visitor
