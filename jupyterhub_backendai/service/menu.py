"""The Hub's own menu of services, for our pages: which they are, and whose.

The Hub shows a service to whoever has its scope `access:services`. Of other services' scopes a
sign-in here says nothing, and is not to: so `setup(c)` hands over whom the configured roles give
them to. Roles that are given otherwise are known to the Hub alone; its own pages show more then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .auth import Caller

MOST_NAMED = 1000  # users and groups in all; so many that the process could not be told of them


@dataclass(frozen=True, slots=True)
class Entry:
    """A service that the menu may show, under the names that the Hub's template knows."""

    name: str
    href: str
    everybody: bool
    admins: bool
    users: Sequence[str] = ()
    groups: Sequence[str] = ()

    def is_for(self, caller: Caller) -> bool:
        """Whether whoever looks has the right to that service."""
        return (
            self.everybody
            or (self.admins and caller.admin)
            or caller.name in self.users
            or not caller.groups.isdisjoint(self.groups)
        )


def entries(
    services: Iterable[Mapping[str, Any]], roles: Sequence[Mapping[str, Any]],
    extra: Iterable[str], href: Mapping[str, str],
) -> list[dict[str, Any]]:  # fmt: skip
    """Of each service that the Hub shows an `Entry` as plain data. `roles` and `extra` (scopes of
    each user) as they are configured; `href` by name."""
    return list(_bounded(_entry(one, roles, extra, href) for one in services if _is_shown(one)))


def _is_shown(service: Mapping[str, Any]) -> bool:
    return bool(service.get("name") and service.get("url") and service.get("display", True))


def _entry(
    service: Mapping[str, Any], roles: Sequence[Mapping[str, Any]], extra: Iterable[str],
    href: Mapping[str, str],
) -> dict[str, Any]:  # fmt: skip
    name = str(service["name"])
    scopes = {"access:services", f"access:services!service={name}"}
    giving = [role for role in roles if not scopes.isdisjoint(role.get("scopes", ()))]
    own = {role.get("name"): role in giving for role in roles if "scopes" in role}
    return {
        "name": name, "href": href[name],
        "everybody": own.get("user", not scopes.isdisjoint(extra)),
        "admins": own.get("admin", True),
        "users": _named(giving, "users"), "groups": _named(giving, "groups"),
    }  # fmt: skip


def _named(roles: Iterable[Mapping[str, Any]], kind: str) -> list[str]:
    return sorted({str(name) for role in roles for name in role.get(kind, ())})


def _bounded(found: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    left = MOST_NAMED
    for entry in found:
        for kind in ("users", "groups"):
            entry[kind] = entry[kind][: max(0, left)]
            left -= len(entry[kind])
        yield entry
