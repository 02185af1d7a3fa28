"""How much memory and computing time a share of a GPU is.

All in integers, and never rounded up, so that what is granted of a device is never more than it
has. The reserve is what the driver and, with MPS, its server take; the granularity of 2 MiB is
that of the driver's allocations.
"""

from __future__ import annotations

from ..model.gpus import GpuDevice, Granted, Unit
from ..model.slots import MIB

GRAIN = 2 * MIB
LEAST_RESERVE = 512 * MIB
WHOLE_PERCENT = 100


def usable_memory(total: int) -> int:
    """Bytes of a device of `total` bytes that shares are made of."""
    return max(0, total - max(LEAST_RESERVE, total // 100))


def shares_of(unit: Unit, memory: int, multiprocessors: int, quantum: int) -> int:
    """Thousandths of shares in a device with so many usable bytes and multiprocessors, where one
    share has the size `unit`; a multiple of `quantum`."""
    shares = min(memory * 1000 // unit.mem, multiprocessors * 1000 // unit.multiprocessors)
    return shares - shares % quantum


def memory_of(device: GpuDevice, amount: int) -> int:
    """Bytes of `amount` thousandths of a share. Shares are alike: each has the same whole number of
    grains, so that two have twice as much as one."""
    if device.slot != "fgpu":
        return device.memory * amount // device.capacity
    share = device.memory * 1000 // device.capacity // GRAIN * GRAIN
    return share * amount // 1000 // GRAIN * GRAIN


def percent_of(device: GpuDevice, amount: int) -> int:
    """Whole percents of the multiprocessors that `amount` thousandths of a share are."""
    return WHOLE_PERCENT * amount // device.capacity


def grant(device: GpuDevice, amount: int) -> Granted:
    """What a session is given with `amount` thousandths of this device's slot."""
    return Granted(
        uuid=device.uuid,
        name=device.name,
        slot=device.slot,
        profile=device.profile,
        amount=amount,
        capacity=device.capacity,
        memory=memory_of(device, amount),
        percent=percent_of(device, amount),
        provider=device.provider,
        enforcement=device.enforcement,
        verified=device.verified,
    )
