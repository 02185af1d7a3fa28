"""What may be opened to whom, by the policy of a session's owner."""

from __future__ import annotations

from ...model.errors import FieldError, Kind, RequestError
from ...model.policy import Policy
from ...store import Way
from .settings import Settings
from .tunnel import Item

ASKS_ITSELF = frozenset({"sshd"})  # TCP apps that let nobody in without a key of their owner's


def asks_itself(app: str, protocol: str) -> bool:
    """Whether an app needs no leave to be reached by others: nothing but SSH goes to it."""
    return protocol == "tcp" and app in ASKS_ITSELF


def may_stay(way: Way, policy: Policy) -> bool:
    """Whether the policy of its owner allows an open way."""
    return policy.public_apps or asks_itself(way.app, way.protocol)


def may_be_opened(item: Item, policy: Policy, settings: Settings) -> bool:
    """Whether others may be let to an app, in the one way that there is to do so."""
    public = not asks_itself(item.name, item.protocol)
    return not _errors(item, public, None, policy, settings)


def check_opening(
    item: Item, public: bool, preferred_port: int | None, policy: Policy, settings: Settings
) -> None:
    """Raises `RequestError` with all that is wrong with a request to open this app."""
    if errors := _errors(item, public, preferred_port, policy, settings):
        raise RequestError(errors)


def _errors(
    item: Item, public: bool, preferred_port: int | None, policy: Policy, settings: Settings
) -> list[FieldError]:
    errors = []
    if not item.available:
        why = item.why or f"{item.title or item.name} is not available in this session."
        errors.append(FieldError("", "not_available", why, Kind.CONFLICT))
    if public:
        errors += _public(item, policy)
    elif item.protocol == "tcp" and not asks_itself(item.name, item.protocol):
        message = (
            "Whoever reaches the port of this app can use it. Open it to the public, if that is "
            "what you want."
        )
        errors.append(FieldError("public", "needed", message, Kind.CONFLICT))
    if preferred_port is not None:
        errors += _preferred(item, public, policy, settings)
    elif item.protocol == "tcp" and settings.pool is None:
        errors.append(_no_ports(""))
    return errors


def _public(item: Item, policy: Policy) -> list[FieldError]:
    if not policy.public_apps:
        message = "The owner's policy does not allow apps that are open to the public."
        return [FieldError("public", "not_allowed", message, Kind.FORBIDDEN)]
    if not item.shareable:
        message = (
            f"{item.title or item.name} lets whoever reaches it do all that its owner may. It is "
            "never opened to the public."
        )
        return [FieldError("public", "not_shareable", message, Kind.FORBIDDEN)]
    return []


def _preferred(item: Item, public: bool, policy: Policy, settings: Settings) -> list[FieldError]:
    if not policy.preferred_port:
        message = "The owner's policy does not let a certain port be asked for. Leave it out."
        return [FieldError("preferred_port", "not_allowed", message, Kind.FORBIDDEN)]
    if settings.pool is None:
        return [_no_ports("preferred_port")]
    if item.protocol == "http" and not public:
        message = "Only an app that is open to the public has a port of its own. Leave it out."
        return [FieldError("preferred_port", "not_public", message, Kind.CONFLICT)]
    return []


def _no_ports(field: str) -> FieldError:
    message = "This site opens no ports to apps (c.BackendAI.app_ports). Ask your admin."
    return FieldError(field, "no_ports", message, Kind.CONFLICT)


def port_message(number: int | None, wanted: int | None, settings: Settings) -> str:
    """What is to be said of the port that an app was given."""
    pool = settings.pool
    if wanted is None or number is None or number == wanted or pool is None:
        return ""
    if wanted not in pool:
        there = f"{pool.first} to {pool.last}"
        return f"Port {wanted} is not among those of this site ({there}): it is {number}."
    return f"Port {wanted} is in use, or was a moment ago: it is {number}."
