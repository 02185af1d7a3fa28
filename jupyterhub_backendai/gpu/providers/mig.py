"""Parts of a GPU that its driver has divided, as the admin laid them out: hardware holds them."""

from __future__ import annotations

from .base import Provider


class Mig(Provider):
    """MIG devices. Their layout is discovered and never changed."""

    name = "mig"
