"""What a channel is: a way by which people are told."""

from __future__ import annotations

from typing import Protocol

from .message import Message


class NotTaken(Exception):
    """A message was not taken, that is certain. `for_good`: another try would be the same.
    `unwanted`: its reader is to have none, which is nothing to worry about."""

    def __init__(self, why: str, *, for_good: bool = False, unwanted: bool = False) -> None:
        super().__init__(why)
        self.for_good, self.unwanted = for_good or unwanted, unwanted


class Delivery:
    """How far a message has got. `handed`: it may be taken from here on, whatever follows."""

    def __init__(self) -> None:
        self.handed = False


class Channel(Protocol):
    """Tells people. `patience`: seconds for one message."""

    name: str
    patience: float

    async def send(self, message: Message, delivery: Delivery) -> None:
        """Returns when it was taken. Raises `NotTaken`, or anything else where that is not known;
        `delivery` says whether it can have been."""

    def close(self) -> None:
        """Ends what it has begun; nothing is sent after."""


class Pages:
    """The pages of the service, and what they have a browser show: they look by themselves."""

    name = "pages"
    patience = 1.0

    async def send(self, message: Message, delivery: Delivery) -> None:
        """There is nothing to send."""
        delivery.handed = True

    def close(self) -> None:
        """Nothing was begun."""
