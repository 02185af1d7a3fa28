"""On the Hub's form a batch session is a link to the service's launcher, where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from spawners import MachineSpawner, site_config, user_of


@pytest.mark.parametrize(
    ("service", "base_url", "link"),
    [
        (True, "/", 'href="/services/backendai/launch"'),
        (True, "/lab/", 'href="/lab/services/backendai/launch"'),
        (False, "/", "The service that starts it is off here"),
    ],
)
async def test_the_way_to_batch(tmp_path: Path, service: bool, base_url: str, link: str) -> None:
    config = site_config(tmp_path, service=service)
    spawner = user_of(config, MachineSpawner, base_url=base_url)._new_spawner("")
    form = await spawner.render_form()
    assert link in form
    assert 'name="command"' not in form
    await spawner.site.close()
