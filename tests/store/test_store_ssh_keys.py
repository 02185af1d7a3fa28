"""The SSH keys of users."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from jupyterhub_backendai.model.keys import SshKeys
from jupyterhub_backendai.site.clock import utcnow
from jupyterhub_backendai.store import Store


def keys(which: int) -> SshKeys:
    return SshKeys(f"private {which}", f"public {which}", f"host {which}", f"host public {which}")


def test_the_first_keys_stay_whoever_comes_at_the_same_time(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(
            threads.map(lambda n: store.add_ssh_keys("alice", keys(n), utcnow()), range(8))
        )
    assert len(set(found)) == 1
    assert store.ssh_keys("alice") == found[0]
    assert store.ssh_keys("bob") is None


def test_new_keys_take_their_place(store: Store) -> None:
    assert store.replace_ssh_keys("alice", keys(1), utcnow()) == keys(1)
    assert store.replace_ssh_keys("alice", keys(2), utcnow()) == keys(2)
    assert store.ssh_keys("alice") == keys(2)
