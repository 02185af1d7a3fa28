"""Pages for visitors of an app that cannot be shown: each whole in itself, as they may see nothing
else of ours."""

from __future__ import annotations

from html import escape

from .heads import SANDBOX, Pairs

AGAIN = 5  # seconds until a page that waits loads itself anew

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
{again}<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 15vh auto 0; max-width: 34rem; padding: 0 1rem }}
h1 {{ font-size: 1.5rem; line-height: 1.2 }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{told}
</main>
</body>
</html>
"""  # noqa: E501


def page(title: str, told: list[str], *, again: bool) -> bytes:
    """A page with this title and these paragraphs, which are plain text; `again`: it loads itself
    anew after a while."""
    if again:
        told = [*told, "This page looks again by itself, every few seconds."]
    return _PAGE.format(
        title=escape(title),
        told="\n".join(f"<p>{escape(line)}</p>" for line in told),
        again=f'<meta http-equiv="refresh" content="{AGAIN}">\n' if again else "",
    ).encode()


def page_pairs() -> Pairs:
    """The headers of such a page."""
    policy = f"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors *; {SANDBOX}"
    return [
        ("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", policy),
        ("Access-Control-Allow-Origin", "*"), ("Referrer-Policy", "no-referrer"),
    ]  # fmt: skip


def closed() -> tuple[str, list[str]]:
    """What is said where there is no open way: the same, whether there ever was one."""
    return "Nothing is open here", [
        "This app was closed, or its session ended, or the address is not complete.",
        "Ask whoever gave you the address for a new one.",
    ]


def starting() -> tuple[str, list[str]]:
    """What is said while nobody knows which ways are open."""
    return "Not yet", ["The service that leads to apps is starting."]


def full() -> tuple[str, list[str]]:
    """What is said where as many visitors as may be are there."""
    return "Too many visitors", ["As many people as there is room for are using this app now."]


def silent(message: str) -> tuple[str, list[str]]:
    """What is said where the app does not answer, and `message` says why."""
    return "The app does not answer yet", [message]
