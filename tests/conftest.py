"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# A slow moment of the machine is no defect: bounds on time are told by the tests that mean them.
settings.register_profile("ours", deadline=None, print_blob=True, max_examples=50)
# HYPOTHESIS_PROFILE=thorough looks for longer, as one does after a change of the rules.
settings.register_profile("thorough", settings.get_profile("ours"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ours"))
