"""Who holds which GPU, and how busy it is for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..model.status import Status
from .agents import HolderRow

if TYPE_CHECKING:
    from .app import Service


async def holders(service: Service) -> Mapping[str, list[HolderRow]]:
    """Those of each GPU or MIG device, by its UUID, in the order in which they were given it. The
    driver is read for those of this machine, as for all others who ask at about the same time."""
    site = service.parts.site
    found = await site.db(site.store.gpu_holders)
    runs = {
        one.session_id
        for one in found
        if one.container_id and one.status is Status.RUNNING
        and not all(part.simulated for part in one.devices)
    }  # fmt: skip
    usage = await service.usages.seen(site) if runs else None
    rows: dict[str, list[HolderRow]] = {}
    for one in found:
        for part in one.devices:
            used = None
            if usage and one.container_id and one.session_id in runs and not part.simulated:
                (used,) = usage.of(one.container_id, [part.uuid]).parts
            rows.setdefault(part.uuid, []).append(
                HolderRow(
                    session_id=one.session_id, name=one.name, owner=one.owner, amount=part.amount,
                    memory=part.memory, memory_used=used.memory_bytes if used else None,
                    busy=used.busy if used else None,
                )
            )  # fmt: skip
    return rows
