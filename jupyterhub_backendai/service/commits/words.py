"""What owners are told of images that were not made, or not removed yet."""

from __future__ import annotations

from dataclasses import dataclass

from ...engine.base import AgentUnreachable, ContainerGone, EngineError, ImageMissing
from ...engine.images import CommitRefused, ImageInUse, RegistryRefused


@dataclass(frozen=True, slots=True)
class Why:
    """Why an image is not made: a short word, and a sentence for its owner."""

    code: str
    message: str


CANCELLED = Why("cancelled", "It was cancelled.")
SESSION_ENDED = Why("session_ended", "The session ended before its image was made.")
TOO_LONG = Why("too_long", "It took too long, and was given up. Tell your admin, or try again.")
INTERNAL = Why("internal", "Something went wrong here. Try again, and tell your admin.")


def why_not_made(error: EngineError, agent: str) -> Why:
    """Why an image was not made, of what went wrong."""
    if isinstance(error, CommitRefused):
        return Why(error.code, error.told)
    if isinstance(error, ContainerGone):
        return SESSION_ENDED
    if isinstance(error, AgentUnreachable):
        message = f"The agent {agent} does not answer. Try again when it does, or tell your admin."
        return Why("agent_away", message)
    if isinstance(error, RegistryRefused):
        message = "The registry did not take it. Tell your admin, who finds the reason in the log."
        return Why("registry", message)
    if isinstance(error, ImageMissing):
        return Why("lost", "It was removed from its agent before it was sent. Make it again.")
    message = f"The agent {agent} could not make it. Tell your admin, who finds the reason in the "
    return Why("engine", f"{message}log.")


def why_not_removed(error: EngineError, agent: str | None) -> str:
    """Why an image is still there, of what went wrong; it is tried again by itself."""
    if isinstance(error, ImageInUse):
        return f"A container on {agent} has it still. It is removed when that is gone."
    if isinstance(error, AgentUnreachable):
        return f"The agent {agent} does not answer. It is removed when it does."
    if isinstance(error, RegistryRefused):
        return "The registry does not remove it. Tell your admin, who finds the reason in the log."
    return f"The agent {agent} could not remove it. Tell your admin."
