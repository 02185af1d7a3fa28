"""How containers reach the Hub: found before it starts, tested once it listens.

A Hub that its containers cannot reach is the classic failure of DockerSpawner installations; it
shows as a start that times out minutes later. Here it is one line in the log at once.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import docker
from docker.errors import APIError, DockerException, NotFound
from traitlets.config import Config
from traitlets.log import get_logger

from ..configuration import read_configuration
from ..engine.base import EngineError
from ..engine.docker import DockerHost
from ..model.slots import MIB

if TYPE_CHECKING:
    from .runtime import Site

HUB_ADDRESS_TRAITS = ("hub_ip", "hub_bind_url", "hub_connect_ip", "hub_connect_url")
PROBE_TIMEOUT = 10  # seconds for the container's request to the Hub
NOBODY = "65534:65534"
# An image may be anybody's: it gets no more than the question needs.
_PROBE_LIMITS = {
    "CapDrop": ["ALL"],
    "SecurityOpt": ["no-new-privileges"],
    "PidsLimit": 64,
    "Memory": 256 * MIB,
    "MemorySwap": 256 * MIB,
    "NanoCpus": 10**9,
}
_PROBE = (
    "import sys, urllib.request\n"
    "print(urllib.request.urlopen(sys.argv[1], timeout=float(sys.argv[2])).status)\n"
)


def hub_address(c: Config) -> dict[str, Any] | None:
    """Values for `c.JupyterHub` under which local containers reach the Hub's API; None if unknown.

    On the host itself that is the gateway of the containers' network, which only containers and
    the host see. In a container it is the Hub's own address on the containers' network.
    """
    network_name = c.DockerSpawner.get("network_name", "bridge")
    options = {
        name: value
        for name, value in (
            *dict(c.DockerSpawner.get("client_kwargs", {})).items(),
            ("tls", dict(c.DockerSpawner.get("tls_config", {}))),
        )
        if value
    }
    # The first agent; where it is another machine, only the admin knows how it reaches the Hub.
    first = read_configuration(c).agent_configs(options)[0]
    try:
        client = DockerHost(first, "", "").client
        network = client.inspect_network(network_name)
        for gateway in filter(_is_ours, _gateways(network)):
            return {"hub_ip": gateway}
        own = _own_address(client, network_name)
        return {"hub_ip": "0.0.0.0", "hub_connect_ip": own} if own else None
    except (DockerException, APIError, OSError) as error:
        get_logger().error(
            "Docker does not answer, so the address under which containers reach the Hub is not "
            "known (%s). Start Docker, or set c.JupyterHub.hub_ip.",
            error,
        )
    return None


def _gateways(network: Mapping[str, Any]) -> list[str]:
    """Addresses of the host on the network. Docker leaves out the default one of `bridge` until
    its first restart; it is the first of the subnet."""
    found = []
    for entry in network["IPAM"]["Config"] or ():
        subnet = ipaddress.ip_network(entry["Subnet"], strict=False)
        found.append(entry.get("Gateway") or str(subnet.network_address + 1))
    return found


def _is_ours(address: str) -> bool:
    """Whether this machine has the address: then the Hub can listen there."""
    if not address:
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _own_address(client: docker.APIClient, network_name: str) -> str | None:
    """How this container is reached on the network: its alias or name where the network has names,
    because its address may be another one after a restart that its sessions live through.

    Its host name is its id unless somebody set one.
    """
    try:
        found = client.inspect_container(socket.gethostname())
    except NotFound:
        if Path("/.dockerenv").exists():
            return socket.gethostname()  # a container with a host name of somebody's choice
        get_logger().error(
            "Containers run on another machine, so the address under which they reach the Hub is "
            "not known. Set c.JupyterHub.hub_ip, and hub_connect_url of the agents."
        )
        return None
    networks: Mapping[str, Any] = found["NetworkSettings"]["Networks"]
    if network_name in networks:
        endpoint = networks[network_name]
        if network_name == "bridge":
            return str(endpoint["IPAddress"])
        names = [*(endpoint.get("Aliases") or ()), found["Name"].lstrip("/")]
        return str(next(name for name in names if not found["Id"].startswith(name)))
    get_logger().error(
        "The Hub's container is not on the network %s of its sessions. Connect it there, or set "
        "c.DockerSpawner.network_name to one of: %s.",
        network_name,
        ", ".join(networks),
    )
    return None


async def check_hub_access(site: Site, c: Config) -> None:
    """Tries from a container on each agent whether it reaches the Hub, and says in the log what to
    do if not. An agent that has nothing to try it with is tried when an image comes there."""
    api_url = await _hub_listens()
    await asyncio.gather(
        *(_check_host(site, c, host, api_url) for host in site.engine.hosts.values())
    )


async def _check_host(site: Site, c: Config, host: DockerHost, api_url: str) -> None:
    url = _for_agent(api_url, host.config.hub_connect_url)
    network = c.DockerSpawner.get("network_name", "bridge")
    told = ""
    while True:
        host.downloads.came.clear()  # before the look, so that none is missed
        problem, why = None, "none of the images of the environments is there yet"
        for image in await _images(site, host, c):
            try:
                problem = await _probe(host, image, url, network)
            except _NoPython:
                why = f'{image} cannot run it ("python3": executable file not found)'
                continue
            _tell(site, host.name, url, problem)
            return
        if why != told:
            told = why
            site.log.warning(
                "Not tested whether containers on %s reach the Hub at %s: %s. It is tried again "
                "when an image is downloaded there.", host.name, url, why,
            )  # fmt: skip
        await host.downloads.came.wait()


def _tell(site: Site, agent: str, url: str, problem: str | None) -> None:
    if problem is None:
        site.log.info("Containers on %s reach the Hub at %s", agent, url)
        return
    site.log.error(
        "Containers on %s cannot reach the Hub at %s, so no session can start there: %s\n"
        "Set c.JupyterHub.hub_ip to an address of this machine that containers can reach (for "
        "the default network the gateway, often 172.17.0.1) and open its port in the firewall; "
        "where the Hub's own address differs from what containers see, set "
        "c.JupyterHub.hub_connect_url, or hub_connect_url of the agent.",
        agent, url, problem,
    )  # fmt: skip


async def _hub_listens() -> str:
    """The Hub's API address, as soon as it answers in this process."""
    from jupyterhub.app import JupyterHub

    app = JupyterHub.instance()
    while getattr(app, "http_server", None) is None:  # noqa: ASYNC110 - the Hub has no event
        await asyncio.sleep(0.1)
    return str(app.hub.api_url)


def _for_agent(api_url: str, connect_url: str) -> str:
    if not connect_url:
        return api_url
    return connect_url.rstrip("/") + urlsplit(api_url).path


async def _images(site: Site, host: DockerHost, c: Config) -> list[str]:
    """Images of the environments that are on the host."""
    names = [v.image for e in site.catalog.environments for v in e.versions]
    names += [c.DockerSpawner.get("image", "")] if c.DockerSpawner.get("image") else []
    found = []
    for name in dict.fromkeys(names):
        try:
            await host.image(name)
        except EngineError:
            continue
        found.append(name)
    return found


class _NoPython(Exception):
    """The image has nothing to ask with, so nothing is known."""


async def _probe(host: DockerHost, image: str, url: str, network: str) -> str | None:
    """None if a container of `image` gets an answer from `url`, else what went wrong.

    Raises `_NoPython`.
    """

    def run(client: docker.APIClient) -> str | None:
        made = client.create_container(
            image,
            entrypoint=["python3", "-c", _PROBE],
            command=[url, str(PROBE_TIMEOUT)],
            user=NOBODY,
            labels=host.helper_labels,
            host_config={"NetworkMode": network, **_PROBE_LIMITS},
        )
        try:
            client.start(made["Id"])
            status = client.wait(made["Id"], timeout=PROBE_TIMEOUT + 20)["StatusCode"]
            if status == 0:
                return None
            lines = client.logs(made["Id"], tail=1).decode("utf-8", "replace").strip()
            return lines or f"exit code {status}"
        finally:
            client.remove_container(made["Id"], force=True, v=True)

    try:
        return await host.call(run)
    except APIError as error:
        if "executable file not found" in str(error):
            raise _NoPython from error
        return str(error)
    except EngineError as error:
        return str(error)
