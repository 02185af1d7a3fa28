"""The traits that an admin sets as `c.BackendAI.*`, and `setup(c)`. Nothing else reads config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from textwrap import dedent
from typing import Any
from urllib.parse import urlsplit

from traitlets import Bool, Dict, Integer, List, TraitError, Unicode
from traitlets.config import Config, LoggingConfigurable

from .configuration_apps import AppTraits, check_apps, read_ports
from .configuration_idle import IdleTraits, check_idle, read_idle, read_warnings
from .configuration_notices import NoticeTraits, check_notices, read_mail, read_webhook
from .configuration_registry import RegistryTraits, check_registry, read_registry
from .configuration_values import (
    check_group,
    check_policies,
    read_agents,
    read_as,
    read_catalog,
    read_policies,
    wrong,
)
from .configuration_watching import WatchingTraits, check_watching
from .engine.docker import AgentConfig
from .engine.settings import CAPABILITIES
from .model.catalog import Bytes, Catalog
from .model.errors import ConfigurationError
from .model.gpus import GpuRule
from .model.idle import IdleRules
from .model.notices import Mail, Webhook
from .model.policy import Policies
from .model.registry import ImageRegistry
from .store.database import Database

LEAST_LOG = 1024**2  # bytes


class BackendAI(
    AppTraits, IdleTraits, NoticeTraits, RegistryTraits, WatchingTraits, LoggingConfigurable
):
    """Compute sessions for JupyterHub: what the site offers, to whom, and where it runs."""

    environments = List(
        Dict(),
        help=dedent(
            """
            Offer these environments in the options form, in this order. The first version of the
            first environment is the default. Without any, sessions use `c.DockerSpawner.image`.

            Each has `name` and `versions` (each with `name` and `image`), and may have `title`,
            `description`, `icon` (a Font Awesome name), `minimum` (the least resources), `apps`
            and `command` (what to run instead of the image's own command).

            `apps` are what has a page or a port in its sessions, beside what they know by
            themselves: `name:protocol:port` (protocol `http`, `tcp`, `vnc` or `rdp`), or an object
            with `name`, `port` or `ports`, `protocol`, `title`, `category`, `icon`, `command` (a
            list that starts it on first use, with `{port}` for its port), `path` (where a browser
            begins) and `shareable` (whether it may be opened to the public). Example::

                c.BackendAI.environments = [
                    {
                        "name": "pytorch",
                        "title": "PyTorch",
                        "description": "PyTorch with CUDA",
                        "icon": "fire",
                        "versions": [
                            {"name": "2.9", "image": "registry.example.org/lab/pytorch:2.9"},
                            {"name": "2.8", "image": "registry.example.org/lab/pytorch:2.8"},
                        ],
                        "minimum": {"cpu": 1, "mem": "2g"},
                        "apps": [
                            "labelstudio:http:8081",
                            {
                                "name": "mlflow",
                                "title": "MLflow",
                                "port": 5000,
                                "command": ["mlflow", "ui", "--port", "{port}"],
                            },
                        ],
                    }
                ]
            """
        ),
    ).tag(config=True)

    presets = List(
        Dict(),
        help=dedent(
            """
            Offer these named amounts of resources: `name`, `cpu` (cores), `mem`, and as needed
            `shm`, `description`, and `resource_group` for a preset of one group only. Of GPUs it
            has one kind: `fgpu` (shares), `gpu` (whole GPUs), or `mig` (MIG devices) with
            `mig_profile`.
            The first that fits an environment and the user's limits is the default. Example::

                c.BackendAI.presets = [
                    {"name": "small", "cpu": 1, "mem": "2g"},
                    {"name": "large", "cpu": 8, "mem": "32g", "shm": "4g"},
                ]
            """
        ),
    ).tag(config=True)

    resource_groups = List(
        Dict(),
        help=dedent(
            """
            Sets of agents, who may use them, and how their queue works. One group named `default`
            for everybody where none is named. Keys: `name`, `title`, `description`, `users`,
            `groups` (Hub groups; without both, everybody), `queue` (`"backfill"`: a smaller session
            may pass a larger one that waits; `"strict"`: none passes), `max_bypass` (seconds after
            which a waiting session is passed no more), `pending_timeout` (seconds; 0 is never),
            `selection` (`"concentrated"` or `"dispersed"`), `per_session` (the most that one
            session may have), `choose_agent`, `gpu_spread` (more than one GPU is whole GPUs and at
            most one share, `"packed"`, or equal shares, `"even"`), `gpu_placement` (a session goes
            where least of a GPU is left, `"tightest"`, or where what is left serves others best,
            `"fragments"`). Example::

                c.BackendAI.resource_groups = [
                    {"name": "default"},
                    {"name": "lab", "groups": ["vision-lab"], "max_bypass": 600},
                ]
            """
        ),
    ).tag(config=True)

    agents = List(
        Dict(),
        help=dedent(
            """
            Docker hosts that run sessions. Without any, the one Docker engine that DockerSpawner
            finds (`DOCKER_HOST`, or the local socket) is the agent `local` of the first group.

            Keys: `name`, `resource_group`, `base_url` (`unix://`, `tcp://` with `tls`, or
            `ssh://`), `tls` (arguments of `docker.tls.TLSConfig`), `use_ssh_client` (the system's
            ssh, with its keys and settings), `timeout` (seconds of one call), `reserved` (kept for
            the system), `capacity` (instead of what the engine reports), `address` (where published
            ports answer, for a host whose container addresses cannot be reached),
            `hub_connect_url` (the Hub's API as its containers reach it). Example::

                c.BackendAI.agents = [
                    {"name": "cpu-01"},
                    {
                        "name": "gpu-01",
                        "resource_group": "gpu",
                        "base_url": "tcp://gpu-01:2376",
                        "tls": {"ca_cert": "/etc/hub/ca.pem",
                                "client_cert": ["/etc/hub/cert.pem", "/etc/hub/key.pem"]},
                        "address": "10.0.0.11",
                        "hub_connect_url": "http://10.0.0.1:8081",
                        "reserved": {"cpu": 1, "mem": "2g"},
                    },
                ]
            """
        ),
    ).tag(config=True)

    gpus = List(
        Dict(),
        help=dedent(
            """
            Offer the GPUs of this machine to sessions, each as the first of these rules says that
            it matches; without any, sessions get no GPU. `{}` offers each as a whole, and by its
            parts where it is divided (MIG). Keys: `model` (a pattern of the driver's name),
            `devices` (UUIDs, or how they begin), `resource_group`; `shares_per_gpu` or `unit`
            (`mem` and `multiprocessors` of one share) to offer shares, in steps of `quantum`;
            `provider` (`"auto"`, `"mps"`, `"memory"` or `"advisory"`) that holds them; and `least`,
            how hard memory, compute and faults must be held (`"hard"`, `"soft"` or `"none"`).
            Example::

                c.BackendAI.gpus = [
                    {"model": "*L40S*", "shares_per_gpu": 5, "quantum": 0.5,
                     "least": {"memory": "hard"}},
                    {},
                ]
            """
        ),
    ).tag(config=True)

    simulated_gpus = Integer(
        0,
        min=0,
        max=64,
        help="Offer so many GPUs that do not exist, in shares, to try forms and queue without "
        "any; they are called simulated wherever they appear. Example: "
        "`c.BackendAI.simulated_gpus = 2`.",
    ).tag(config=True)

    default_policy = Dict(
        help=dedent(
            """
            What a user may use, unless a policy of their own or of one of their groups says
            otherwise. `total` and `max_sessions` bound all live sessions of the user together:
            what is more waits. `per_session`, `max_pending`, `environments`, `resource_groups`,
            `manual_image`, `choose_agent`, `max_preopen_ports`, `max_folders` bound a request:
            what is more is refused. `priority` is 0 to 100; a request may say another one, at
            most `max_priority` (`priority` itself where it is not named). `public_apps` and
            `preferred_port` let apps be opened to everybody, and a certain port be asked for.
            `max_images` is how many images of their sessions the user may have; 0 is none.
            `max_image_size` is how much one may add to what it was made from; `None` is no limit.
            Example::

                c.BackendAI.default_policy = {
                    "total": {"cpu": 8, "mem": "32g"},
                    "max_sessions": 3,
                    "per_session": {"cpu": 4},
                }
            """
        ),
    ).tag(config=True)

    user_policies = Dict(
        help=dedent(
            """
            Policies by user name, each whole: what it does not name is as where nothing is
            configured, not as in the default policy. Example::

                c.BackendAI.user_policies = {"alice": {"max_sessions": 10, "manual_image": True}}
            """
        ),
    ).tag(config=True)

    group_policies = Dict(
        help=dedent(
            """
            Policies by Hub group, for each member. The first group here that a user is in counts.
            Example::

                c.BackendAI.group_policies = {"staff": {"total": {"cpu": 32}}}
            """
        ),
    ).tag(config=True)

    project_quotas = Dict(
        help=dedent(
            """
            What the members of a Hub group may hold together, in all their sessions for it.
            Example::

                c.BackendAI.project_quotas = {"cs101": {"total": {"cpu": 64}, "max_sessions": 40}}
            """
        ),
    ).tag(config=True)

    allow_manual_image = Bool(
        False,
        help=dedent(
            """
            Let users name an image by hand, unless their policy says otherwise. Any image then
            runs, so allow this only where you would let them pull anything. Example::

                c.BackendAI.allow_manual_image = True
            """
        ),
    ).tag(config=True)

    database_url = Unicode(
        "sqlite:///backendai.sqlite",
        help=dedent(
            """
            Keep sessions, queue and history in this database: SQLite, or PostgreSQL with
            `pip install jupyterhub-backendai[postgres]`. It is not the Hub's own. Example::

                c.BackendAI.database_url = "postgresql+psycopg://hub:secret@db/backendai"
            """
        ),
    ).tag(config=True)

    folder_root = Unicode(
        "",
        help=dedent(
            """
            Keep folders below this directory, as the Hub sees it: `users/<name>/<folder>` and
            `projects/<group>/<folder>`. Empty turns folders off. Example::

                c.BackendAI.folder_root = "/srv/folders"
            """
        ),
    ).tag(config=True)

    folder_root_on_host = Unicode(
        "",
        help=dedent(
            """
            The same directory as the Docker hosts see it, where that differs: a Hub in a
            container sees a mount. Example::

                c.BackendAI.folder_root_on_host = "/export/folders"
            """
        ),
    ).tag(config=True)

    scratch_driver = Unicode(
        "local",
        help=dedent(
            """
            Make the home directories of sessions with this volume driver. Example::

                c.BackendAI.scratch_driver = "local"
            """
        ),
    ).tag(config=True)

    scratch_options = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        help=dedent(
            """
            Options of the volume driver, for instance to bound a home or to put it on another
            disk. Example, 10 GB in memory::

                c.BackendAI.scratch_options = {"type": "tmpfs", "device": "tmpfs", "o": "size=10g"}
            """
        ),
    ).tag(config=True)

    uid = Integer(
        1000,
        min=1,
        help="Run sessions as this user id, which owns their folders. Example: "
        "`c.BackendAI.uid = 2000`. Root (0) is not possible.",
    ).tag(config=True)

    gid = Integer(
        100,
        min=1,
        help="Run sessions with this group id. Example: `c.BackendAI.gid = 2000`.",
    ).tag(config=True)

    pids_limit = Integer(
        4096,
        min=32,
        help="The most processes and threads in one container. Example: "
        "`c.BackendAI.pids_limit = 8192`.",
    ).tag(config=True)

    capabilities = List(
        Unicode(),
        help="Linux capabilities that sessions keep; all others are dropped. Example: "
        '`c.BackendAI.capabilities = ["SYS_NICE"]`.',
    ).tag(config=True)

    pin_cores = Bool(
        False,
        help="Give each session cores of its own (a cpuset) where it asks for whole cores, "
        "instead of a share of time on all. Example: `c.BackendAI.pin_cores = True`.",
    ).tag(config=True)

    queue_timeout = Integer(
        24 * 3600,
        min=1,
        help="Seconds that a start waits in line before it is given up. Example: "
        "`c.BackendAI.queue_timeout = 3600`.",
    ).tag(config=True)

    history_days = Integer(
        90,
        min=0,
        help="Days that the database keeps a session after its end, with its history and what it "
        "held; 0 keeps all for ever. Example: `c.BackendAI.history_days = 365`.",
    ).tag(config=True)

    check_hub_access = Bool(
        True,
        help="At the Hub's start, test from a container that the Hub can be reached, and say "
        "what to set when it cannot. Example: `c.BackendAI.check_hub_access = False`.",
    ).tag(config=True)

    hub_id = Unicode(
        "",
        help="Mark containers as this Hub's by this word (letters and digits); made up at the "
        'first start where empty. Example: `c.BackendAI.hub_id = "physics"`.',
    ).tag(config=True)

    queue_patience = Integer(
        15,
        min=1,
        help="Seconds that a start waits in line before its page lets go of it, where the sessions "
        "service runs: the session keeps its place and starts by itself. Example: "
        "`c.BackendAI.queue_patience = 60`.",
    ).tag(config=True)

    log_directory = Unicode(
        "backendai-logs",
        help="Keep the logs of sessions that are over in this directory of the Hub's machine. "
        'Example: `c.BackendAI.log_directory = "/var/lib/jupyterhub/logs"`.',
    ).tag(config=True)

    log_max = Unicode(
        "100m",
        help="Keep at most this much of one container's log, on its machine and after its end; of "
        'more than that only the end. Example: `c.BackendAI.log_max = "20m"`.',
    ).tag(config=True)

    service = Bool(
        True,
        help=dedent(
            """
            Run the sessions service beside the Hub: a REST API below `/services/backendai/`, with
            logs and history, and a queue that survives restarts. It starts what no page waits for:
            batch sessions, sessions that depend on others, or several at once, which are refused
            without it. Example::

                c.BackendAI.service = False
            """
        ),
    ).tag(config=True)

    service_url = Unicode(
        "http://127.0.0.1:10810",
        help="Where the sessions service listens, as the Hub's proxy reaches it: an address of "
        "this machine and a free port. Example: "
        '`c.BackendAI.service_url = "http://127.0.0.1:9001"`.',
    ).tag(config=True)

    usage_interval = Integer(
        15,
        min=1,
        help="Look every so many seconds at what sessions use of what they were granted. Example: "
        "`c.BackendAI.usage_interval = 5`.",
    ).tag(config=True)

    sessions_first = Bool(
        True,
        help="Take people to their sessions after signing in, instead of to their server. "
        "`c.JupyterHub.default_url` wins over it. Example: `c.BackendAI.sessions_first = False`.",
    ).tag(config=True)

    def catalog(self) -> Catalog:
        """What the site offers. Raises `ConfigurationError`."""
        return read_catalog(self.environments, self.presets, self.resource_groups)

    def policies(self) -> Policies:
        """All policies. Raises `ConfigurationError`."""
        return read_policies(
            {"manual_image": self.allow_manual_image},
            self.default_policy, self.user_policies, self.group_policies, self.project_quotas,
        )  # fmt: skip

    def agent_configs(self, local_client: Mapping[str, Any]) -> list[AgentConfig]:
        """The agents; `local_client` reaches the one that needs no configuration.

        Raises `ConfigurationError`.
        """
        return read_agents(self.agents, self.catalog().resource_groups, local_client)

    def gpu_rules(self) -> tuple[GpuRule, ...]:
        """How GPUs are offered. Raises `ConfigurationError`."""
        rules = tuple(read_as("gpus", self.gpus, list[GpuRule]))
        groups = self.catalog().resource_groups
        for index, rule in enumerate(rules):
            check_group(f"gpus[{index}].resource_group", rule.resource_group, groups)
        return rules

    def check(self) -> None:
        """Reads everything once. Raises `ConfigurationError` for the first thing that is wrong."""
        check_policies(self.policies(), self.catalog())
        check_idle(self, self.catalog(), self.policies(), self.usage_interval)
        self.agent_configs({})
        self.gpu_rules()
        self.log_bytes()
        Database(self.database_url).close()  # reads the URL and finds the driver; no connection
        for trait in ("folder_root", "folder_root_on_host"):
            path = getattr(self, trait)
            if path and not os.path.isabs(path):
                raise wrong(trait, path, "It is not an absolute path.", "Begin it with a slash.")
        if self.folder_root_on_host and not self.folder_root:
            raise wrong(
                "folder_root", "", "The Hub does not know where folders are.",
                "Set it to where the Hub sees folder_root_on_host.",
            )  # fmt: skip
        if self.hub_id and not (
            self.hub_id.isascii() and self.hub_id.isalnum() and len(self.hub_id) <= 32
        ):
            raise wrong(
                "hub_id", self.hub_id, "It becomes part of names.",
                "Use up to 32 letters and digits.",
            )  # fmt: skip
        place = urlsplit(self.service_url)
        if place.scheme != "http" or not place.hostname or place.path.strip("/"):
            raise wrong(
                "service_url", self.service_url, "It is not the address of a service.",
                "Write http://, an address and a port: http://127.0.0.1:10810.",
            )  # fmt: skip
        check_apps(self)
        check_notices(self)
        check_registry(self)
        check_watching(self)
        for name in self.capabilities:
            if name.upper().removeprefix("CAP_") not in CAPABILITIES:
                raise wrong(
                    "capabilities", name, "Linux has no such capability.",
                    "Write it as in capabilities(7), such as SYS_NICE.",
                )  # fmt: skip

    def port_range(self) -> tuple[int, int] | None:
        """The first and the last of `app_ports`; None without any. Raises `ConfigurationError`."""
        return read_ports(self.app_ports)

    def idle_rules(self) -> IdleRules:
        """The idle checks of the whole site. Raises `ConfigurationError`."""
        return read_idle(self)

    def registry(self) -> ImageRegistry | None:
        """Where users' images go, if anywhere. Raises `ConfigurationError`."""
        return read_registry(self)

    def warnings(self) -> tuple[int, ...]:
        """`idle_warnings` in seconds, the longest first. Raises `ConfigurationError`."""
        return read_warnings(self)

    def mail(self) -> Mail | None:
        """`notices_mail`; None without. Raises `ConfigurationError`."""
        return read_mail(self)

    def webhook(self) -> Webhook | None:
        """`notices_webhook`; None without. Raises `ConfigurationError`."""
        return read_webhook(self)

    def log_bytes(self) -> int:
        """`log_max` in bytes. Raises `ConfigurationError`."""
        found: int = read_as("log_max", self.log_max, Bytes)
        if found < LEAST_LOG:
            raise wrong("log_max", self.log_max, "It is too little.", 'Write at least "1m".')
        return found


def read_configuration(config: Config) -> BackendAI:
    """`c.BackendAI` checked as a whole. Raises `ConfigurationError`, also for a wrong type."""
    known = BackendAI.class_trait_names(config=True)
    given = config.get("BackendAI", {})
    for name in given:
        if name not in known and not name.startswith("_"):
            raise ConfigurationError(
                f"BackendAI.{name}", given[name], "There is no such trait.",
                f"Use one of: {', '.join(sorted(known))}.",
            )  # fmt: skip
    try:
        configuration = BackendAI(config=config)
    except TraitError as error:
        raise _trait_error(given, error) from None
    configuration.check()
    return configuration


def _trait_error(given: Mapping[str, Any], error: TraitError) -> ConfigurationError:
    """Which trait it was: traitlets names it in its text, or else each is tried alone."""
    for name, value in given.items():
        try:
            BackendAI(config=Config({"BackendAI": {name: value}}))
        except TraitError as alone:
            return ConfigurationError(
                f"BackendAI.{name}", value, str(alone), f"See the example of {name} in the docs."
            )
    return ConfigurationError("BackendAI", dict(given), str(error), "See the docs.")
