"""How the admin's page shares out what it shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyterhub_backendai.service.pages.admin import fair


@given(st.lists(st.integers(0, 60), max_size=8), st.integers(0, 60))
def test_what_is_shown_is_shared_out_fairly(wanted: list[int], most: int) -> None:
    shares = fair(wanted, most)
    assert sum(shares) == min(most, sum(wanted))
    for want, got in zip(wanted, shares, strict=True):
        assert got <= want
        assert got == want or all(other <= got + 1 for other in shares)
