"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A slow moment of the machine is no defect: bounds on time are told by the tests that mean them.
settings.register_profile("ours", deadline=None, print_blob=True)
settings.load_profile("ours")
