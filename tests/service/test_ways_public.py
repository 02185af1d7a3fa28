"""Visitors of public apps: what goes in, what comes out, and what never does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from .ways import Open, opened

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ways(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Open]:
    async with opened(tmp_path_factory.mktemp("ways")) as made:
        yield made


async def test_a_page_through_the_way(ways: Open) -> None:
    way = await ways.public()
    client = ways.service.client
    async with client.get(ways.url(way, "some/page?x=%20&y")) as reply:
        assert reply.status == 200
        told = await reply.json()
    assert told["path"] == "/some/page?x=%20&y"
    headers = {name.lower(): value for name, value in told["headers"]}
    assert headers["x-forwarded-prefix"].endswith(f"/public/{way['id']}")
    assert headers["x-forwarded-proto"] == "http"
