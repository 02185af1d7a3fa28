"""Agents as an admin writes them."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Annotated, Any

from docker.tls import TLSConfig
from pydantic import Field, field_validator

from ..model.catalog import Amounts, NameStr
from ..model.configured import Model
from .docker import AgentConfig

_TLS_KEYS = frozenset(signature(TLSConfig).parameters)
_CLIENT_KEYS = ("base_url", "tls", "use_ssh_client", "timeout")


class AgentEntry(Model):
    """One entry of `c.BackendAI.agents`."""

    name: NameStr
    resource_group: str | None = None
    base_url: Annotated[str, Field(pattern=r"^(unix|tcp|ssh|https?)://.+")] | None = None
    tls: bool | dict[str, Any] | None = None
    use_ssh_client: bool | None = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    capacity: Amounts | None = None
    reserved: Amounts = Amounts()
    address: str = ""
    hub_connect_url: Annotated[str, Field(pattern=r"^(https?://.+)?$")] = ""

    @field_validator("capacity")
    @classmethod
    def _whole(cls, value: Amounts | None) -> Amounts | None:
        if value is not None and not (value.cpu and value.mem):
            raise ValueError("capacity needs cpu and mem; without them nothing would ever fit")
        return value

    @field_validator("tls")
    @classmethod
    def _tls_arguments(cls, value: bool | dict[str, Any] | None) -> bool | dict[str, Any] | None:
        if isinstance(value, dict) and (unknown := sorted(set(value) - _TLS_KEYS)):
            raise ValueError(
                f"there is no {unknown[0]!r} in tls: use {', '.join(sorted(_TLS_KEYS))}"
            )
        return value

    def config(self, group: str, local_client: Mapping[str, Any]) -> AgentConfig:
        """The agent; without an endpoint of its own it is reached as `local_client` says."""
        given = {name: getattr(self, name) for name in _CLIENT_KEYS}
        client = {name: value for name, value in given.items() if value is not None}
        return AgentConfig(
            name=self.name,
            group=group,
            client=client or dict(local_client),
            capacity=self.capacity.slots if self.capacity else None,
            reserved=self.reserved.slots,
            address=self.address,
            hub_connect_url=self.hub_connect_url,
        )
