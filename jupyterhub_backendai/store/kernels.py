"""Containers of sessions: what is noted of them. How they are found is in `queries`."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, exists, insert, select, update

from . import sessions
from .records import KernelFacts
from .tables import KERNELS

_THIS_KERNEL = (KERNELS.c.session_id == bindparam("of"), KERNELS.c.name == bindparam("which"))
_KERNEL_EXISTS = select(exists().where(*_THIS_KERNEL))
_ADD_KERNEL, _CHANGE_KERNEL = insert(KERNELS), update(KERNELS).where(*_THIS_KERNEL)


def note(db: Connection, session_id: str, name: str, facts: KernelFacts) -> None:
    """Notes facts of a container, and that there is one. Raises `NotFound`."""
    unknown = set(facts) - KernelFacts.__annotations__.keys()
    if unknown:
        raise TypeError(f"a kernel has no {', '.join(sorted(unknown))}")
    sessions.touch(db, session_id)
    values = {key: sessions.stored(value) for key, value in facts.items()}
    mine = {"of": session_id, "which": name}
    if not db.scalar(_KERNEL_EXISTS, mine):
        db.execute(_ADD_KERNEL, {"session_id": session_id, "name": name, **values})
    elif values:
        db.execute(_CHANGE_KERNEL, mine | values)
