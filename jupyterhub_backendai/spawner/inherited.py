"""Settings of DockerSpawner and the Hub that a session cannot have: refused, or said in the log.

Everything else of `c.DockerSpawner` goes on working. The same table for people is in
docs/how-to/install-on-your-hub.md.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from dockerspawner import DockerSpawner
from jupyterhub.app import JupyterHub
from traitlets.config import Config

from ..model.errors import ConfigurationError
from ..model.rules import HOME

# Of `extra_host_config`, as docker-py calls them: what a session is granted, and what follows.
_GRANTED = {
    "mem_limit": "mem", "memswap_limit": "mem", "mem_reservation": "mem", "nano_cpus": "cpu",
    "cpu_quota": "cpu", "cpu_count": "cpu", "cpu_percent": "cpu", "shm_size": "shm",
}  # fmt: skip
_ALWAYS = {
    "auto_remove": "A session's container is removed when its session ends, not before.",
    "init": "Sessions always run below an init process.",
}
# What DockerSpawner calls at a start or stop and we do not: an override of it would do nothing.
_NEVER_CALLED = ("get_object", "stop_object", "remove_object")
# Traits that a hook, a group or a subclass may set for one user, and what takes their place.
OF_A_SESSION = {"image": "environments", "mem_limit": "presets", "cpu_limit": "presets"}


def check_inherited(c: Config, spawner_class: type) -> Iterator[str]:
    """What the log is to say of settings that have no effect.

    Raises `ConfigurationError` for one that would break sessions or silently be lost.
    """
    check_internal_ssl(c.get("JupyterHub", {}).get("internal_ssl", False))
    if JupyterHub.initialized():  # the command line may say it too
        check_internal_ssl(JupyterHub.instance().internal_ssl)
    sections = [cls.__name__ for cls in spawner_class.__mro__]
    for section in sections:
        given: Mapping[str, Any] = c.get(section, {})
        _check_home(section, given)
        _check_host_config(section, given, pinned=bool(c.BackendAI.get("pin_cores", False)))
        _check_create_kwargs(section, given)
        _check_groups(section, given, c)
        yield from _without_effect(section, given, c)
    yield from _never_called(spawner_class)


def check_internal_ssl(on: Any) -> None:
    """Raises `ConfigurationError` where the Hub encrypts what its parts say to each other."""
    if on:
        raise ConfigurationError(
            "JupyterHub.internal_ssl", on,
            "Sessions do not work with the Hub's own certificates: their containers would need "
            "them on every Docker host.",
            "Leave it out. To encrypt the way to other machines, connect them by a VPN or an "
            "encrypted network (c.DockerSpawner.network_name).",
        )  # fmt: skip


def _check_home(section: str, given: Mapping[str, Any]) -> None:
    for trait in ("volumes", "read_only_volumes", "mounts"):
        value = given.get(trait)
        for target in _targets(value):
            if posixpath.normpath(target) == HOME:
                raise ConfigurationError(
                    f"{section}.{trait}", value,
                    f"Each session has a home of its own at {HOME}, gone with the session.",
                    f"Mount this below it, such as at {HOME}/data, or set c.BackendAI.folder_root "
                    "and let people mount folders.",
                )  # fmt: skip


def _targets(value: Any) -> Iterator[str]:
    """Where in the container volumes or mounts are put."""
    if isinstance(value, Mapping):
        for target in value.values():
            yield str(target.get("bind", "") if isinstance(target, Mapping) else target)
    elif isinstance(value, (list, tuple)):
        yield from (str(mount.get("target", "")) for mount in value if isinstance(mount, Mapping))


def _check_host_config(section: str, given: Mapping[str, Any], pinned: bool) -> None:
    value = given.get("extra_host_config")
    if not isinstance(value, Mapping):
        return  # a function: what it says is looked at when a container is made
    for name in value:
        trait = f"{section}.extra_host_config[{name!r}]"
        if name in _GRANTED:
            slot = _GRANTED[name]
            raise ConfigurationError(
                trait, value[name], f"A session has the {slot} that it was granted.",
                f"Set {slot} in c.BackendAI.presets, and the most that one may have in "
                "per_session of c.BackendAI.default_policy.",
            )  # fmt: skip
        if name in _ALWAYS:
            raise ConfigurationError(trait, value[name], _ALWAYS[name], "Leave it out.")
        if name == "cpuset_cpus" and pinned:
            raise ConfigurationError(
                trait, value[name], "With c.BackendAI.pin_cores each session has its own cores.",
                "Leave out one of the two.",
            )  # fmt: skip


def _check_create_kwargs(section: str, given: Mapping[str, Any]) -> None:
    value = given.get("extra_create_kwargs")
    if isinstance(value, Mapping) and "image" in value:
        raise ConfigurationError(
            f"{section}.extra_create_kwargs['image']", value["image"],
            "A session has the image of its environment.", "Offer it in c.BackendAI.environments.",
        )  # fmt: skip


def _check_groups(section: str, given: Mapping[str, Any], c: Config) -> None:
    overrides = given.get("group_overrides")
    for key, entry in overrides.items() if isinstance(overrides, Mapping) else ():
        for name in lost_traits(entry.get("spawner_override", {}), c.get("BackendAI", {})):
            raise ConfigurationError(
                f"{section}.group_overrides[{key!r}]", entry,
                f"With c.BackendAI.{OF_A_SESSION[name]}, the {name} of a session is what its owner "
                "asks for.",
                "Say what a group may use in c.BackendAI.group_policies.",
            )  # fmt: skip


def lost_traits(names: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Those of `names` that a session has from `c.BackendAI` (`ours`) and from nowhere else."""
    return [name for name, trait in OF_A_SESSION.items() if name in names and ours.get(trait)]


def _without_effect(section: str, given: Mapping[str, Any], c: Config) -> Iterator[str]:
    for name in lost_traits(given, c.get("BackendAI", {})):
        if given[name] is not None:
            yield (
                f"c.{section}.{name} has no effect beside c.BackendAI.{OF_A_SESSION[name]}. "
                "Leave it out."
            )
    if given.get("remove", True) is False:
        yield f"c.{section}.remove = False has no effect: a container goes with its session."


def _never_called(spawner_class: type) -> Iterator[str]:
    for name in _NEVER_CALLED:
        if getattr(spawner_class, name) is not getattr(DockerSpawner, name):
            yield (
                f"{spawner_class.__name__}.{name} is never called. Override start or stop, and "
                "call super() there."
            )
