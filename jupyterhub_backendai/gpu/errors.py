"""What a provider of GPUs raises."""

from __future__ import annotations


class GpuError(Exception):
    """A GPU could not be made ready, or not as it was granted. The text is for the admin's log."""
