"""Rules on single values: names, variables, ports, paths. Each raises `Problem` and knows no field.

Sources: the product's own limits (session name, ports, aliases) and the documents where they and
the code of that product differ; docs/explanation/choices.md lists each choice.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import Problem, shown

HOME = "/home/work"
SERVER_PORT = 8888  # where the session's own Jupyter server listens
MARKER = "DO_NOT_STORE_PERSISTENT_FILES_HERE.md"  # a file that every home begins with
OWN_FOLDER = ".backendai"  # in the home: keys, and what the session's server notes of itself
MIN_PORT, MAX_PORT = 1024, 65535  # of those that can be preopened
MAX_RANGE = 1000  # ports in one range as people write it; more is a mistake
MAX_THREADS = 1000  # of one library


@dataclass(frozen=True, slots=True)
class TextRule:
    """What a text field may hold: a pattern that Python and browsers read alike (so `-` in a set
    is escaped, and `\\w` is written out), the most characters, and the sentence for anything else.
    """

    pattern: str
    most: int
    text: str

    def matches(self, value: str) -> bool:
        """Whether `value` is written as it should be."""
        return len(value) <= self.most and re.fullmatch(self.pattern, value) is not None


SESSION_NAME = TextRule(
    r"[A-Za-z0-9_][A-Za-z0-9_.\-]{2,62}[A-Za-z0-9_]",
    64,
    "A name has 4 to 64 letters, digits, -, _ or . in it.",
)
ENV_NAME = TextRule(
    r"[A-Za-z_][A-Za-z0-9_]*",
    128,
    "A variable's name has letters, digits and _, and no digit in front.",
)
FOLDER_NAME = TextRule(
    r"[A-Za-z0-9_.][A-Za-z0-9_.\-]*",
    64,
    "A folder's name has up to 64 letters, digits, -, _ or . in it.",
)
MOUNT_PATH = TextRule(
    r"[A-Za-z0-9_\/.\-]+", 255, "A path has only letters, digits, /, -, _ and . in it."
)
_IMAGE = re.compile(
    r"(?:(?:[a-z0-9]|[a-z0-9][a-z0-9.-]*[a-z0-9])(?::\d{1,5})?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_IMAGE_ID = re.compile(r"(?:sha256:.*|[0-9a-f]{64})", re.ASCII | re.IGNORECASE)
# A port or a range of ports, as people write it.
PORT_WORD = r"([0-9]{1,6})(?::([0-9]{1,6}))?"
NOT_A_PORT = f"is not a port. Use a number from {MIN_PORT} to {MAX_PORT}, or a range as 8000:8002."
_OUT_OF_RANGE = f"cannot be opened. Use a number from {MIN_PORT} to {MAX_PORT}."

# What steers the Hub's side of the server, the container or the GPU. The allocation or the Hub
# sets these; a user's value would break the session or widen what it may reach.
_RESERVED_ENV_PREFIXES = (
    "JUPYTERHUB_",
    "JPY_",
    "NVIDIA_",
    "BACKENDAI_",
    "FGPU_",
    "CUDA_MPS_",
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_SM_LIMIT",
    "NB_",
)
_RESERVED_ENV = frozenset(
    {
        "HOME", "HOSTNAME", "USER", "LD_PRELOAD", "LD_AUDIT", "MEM_LIMIT", "MEM_GUARANTEE",
        "CPU_LIMIT", "CPU_GUARANTEE", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
        "CUDA_GLOBAL_DEVICE_IDS", "CUDA_RESOURCE_VIRTUALIZED", "CUDA_MEMORY_LIMITS",
        "CUDA_PROCESSOR_LIMITS", "CUDA_RESERVED_MEMORY", "TF_MIN_GPU_MULTIPROCESSOR_COUNT",
        "TF_GPU_MEMORY_ALLOC", "GPU_TYPE", "GPU_MODEL_NAME", "GPU_CONFIG", "GPU_COUNT", "N_GPUS",
        "GRANT_SUDO", "SUDO_SESSION_ENABLED", "CHOWN_HOME", "CHOWN_EXTRA",
        "JUPYTER_IMAGE", "JUPYTER_IMAGE_SPEC", "JUPYTER_RUNTIME_DIR",
        "LOCAL_USER_ID", "LOCAL_GROUP_ID", "ADDITIONAL_GIDS",
    }
)  # fmt: skip

_RESERVED_PORTS = {
    2000: "the session itself",
    2001: "the session itself",
    2200: "SSH",
    7681: "the terminal",
    SERVER_PORT: "Jupyter",
}

# Top-level directories of the image that a folder must not hide, and names inside the home that
# the session itself writes to.
# fmt: off
_SYSTEM_DIRECTORIES = frozenset({
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media",
    "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr",  # noqa: S108
    "/var",
})
# fmt: on
_RESERVED_FOLDERS = frozenset(
    {".terminfo", ".jupyter", ".tmux.conf", ".ssh", "id_container", MARKER, OWN_FOLDER}
)
# Folders with a place of their own: Homebrew on Linux works at this one path only.
_PLACES = {".linuxbrew": "/home/linuxbrew/.linuxbrew"}
_RC_FILE = re.compile(r"\.[a-z0-9]+(?:rc|_profile)")


def check_text(value: str) -> str:
    """`value` if it can be stored and passed on: encodable as UTF-8 and without NUL."""
    if "\x00" in value:
        raise Problem("bad_text", "It contains a NUL character; remove it.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Problem("bad_text", "It contains half a character (a lone surrogate).") from None
    return value


def check_title(value: str) -> str:
    """`value` if it is a line of text that a person can read: something, and nothing that is not
    seen or turns round what stands beside it."""
    if not value.strip():
        raise Problem("blank", "Write at least one character that can be seen.")
    if not check_text(value).isprintable():
        raise Problem("bad_character", "It contains a character that cannot be seen; remove it.")
    return value


def check_session_name(name: str) -> str:
    """4–64 letters, digits, `-`, `_` or `.`, beginning and ending with a letter, digit or `_`."""
    if SESSION_NAME.matches(name):
        if name == "from-template":
            raise Problem("reserved", "from-template is a reserved name. Choose another.")
        return name
    if len(name) < 4:
        raise Problem("too_short", "A name has at least 4 characters.")
    if len(name) > SESSION_NAME.most:
        raise Problem("too_long", "A name has at most 64 characters.")
    if not re.match(r"\w", name, re.ASCII):
        raise Problem("bad_start", "A name begins with a letter, a digit or _.")
    if not re.search(r"\w\Z", name, re.ASCII):
        raise Problem("bad_end", "A name ends with a letter, a digit or _.")
    raise Problem("bad_character", "A name has only letters, digits, -, _ and . in it.")


def numbered(name: str, count: int) -> list[str]:
    """Names of `count` sessions that are started from one: `name-1` to `name-N`; a single one is
    named as it is."""
    return [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]


def is_reserved_env(name: str) -> bool:
    """Whether the Hub, the engine or the allocation sets this variable, in capitals or not."""
    # Two underscores in front are how the Hub's own storage of options marks its encodings.
    upper = name.upper()
    return (
        name.startswith("__") or upper in _RESERVED_ENV or upper.startswith(_RESERVED_ENV_PREFIXES)
    )


def check_env_name(name: str) -> str:
    """A variable that a user may set: well formed and not one that we or the Hub set."""
    if not ENV_NAME.matches(name):
        raise Problem("bad_name", ENV_NAME.text)
    if is_reserved_env(name):
        raise Problem("reserved", f"{name} is set by the system. Choose another name.")
    return name


def check_image(image: str) -> str:
    """A well-formed image reference such as `registry.example.org/team/torch:2.9`."""
    if len(image) > 255 or not _IMAGE.fullmatch(image):
        raise Problem("bad_image", "An image is written like registry/name:tag, in small letters.")
    if _IMAGE_ID.fullmatch(image):
        # An id names whatever happens to be on a machine, other people's images included.
        raise Problem("bad_image", "Name an image by its name and tag, not by its id.")
    return image


def with_tag(image: str) -> str:
    """A reference with the tag that it means; without one it could also be read as an id."""
    last = image.rsplit("/", 1)[-1]
    return image if ":" in last or "@" in last else f"{image}:latest"


def _port_token(token: object) -> Iterable[int]:
    """The ports that one token stands for: `8080`, `"8080"` or `"8080:8083"`."""
    if isinstance(token, int) and not isinstance(token, bool):
        return (token,)
    text = str(token).strip() if isinstance(token, str) else ""
    match = re.fullmatch(PORT_WORD, text)
    if not match:
        raise Problem("bad_port", f"{shown(text, 20) if text else 'This'} {NOT_A_PORT}")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise Problem("bad_range", f"{text} is not a range of ports: write the smaller one first.")
    if last - first >= MAX_RANGE:
        raise Problem("bad_range", f"{text} is too long a range: it has more than {MAX_RANGE}.")
    return range(first, last + 1)


def expand_ports(token: object) -> list[int]:
    """Ports of one token, each allowed as a preopen port."""
    ports = list(_port_token(token))
    for port in ports:
        if not MIN_PORT <= port <= MAX_PORT:
            # A number from JSON may have thousands of digits, which Python refuses to write out.
            which = f"Port {port}" if abs(port) < 10**9 else "This port"
            raise Problem("out_of_range", f"{which} {_OUT_OF_RANGE}")
        if port in _RESERVED_PORTS:
            raise Problem("reserved", f"Port {port} {used_by(_RESERVED_PORTS[port])}")
    return ports


def check_folder_name(name: str) -> str:
    """A name for a folder: 1–64 letters, digits, `-`, `_`, `.`; not one the session uses."""
    if not FOLDER_NAME.matches(name) or name in {".", ".."}:
        raise Problem("bad_name", FOLDER_NAME.text)
    if name in _RESERVED_FOLDERS or _RC_FILE.fullmatch(name):
        raise Problem("reserved", f"{name} is used by the session itself. Choose another name.")
    return name


def default_target(folder: str) -> str:
    """Where a folder appears when nobody says where: in the home, under its own name.

    `folder` is a folder's name as sessions know it, with its project in front if it has one.
    """
    leaf = folder.rsplit("/", 1)[-1]
    return _PLACES.get(folder, f"{HOME}/{leaf}")


def mount_target(path: str) -> str:
    """Where a folder appears: inside the home for a relative path, else as written.

    Raises `Problem` for `..`, for the home itself and for anything that would hide the system.
    """
    if not MOUNT_PATH.matches(path):
        raise Problem("bad_path", MOUNT_PATH.text)
    if any(part in {".", ".."} for part in path.split("/")):
        raise Problem("bad_path", "A path cannot contain . or .. as a step.")
    target = posixpath.normpath(posixpath.join(HOME, path))
    if target.startswith("//"):
        target = target[1:]
    if target == HOME:
        raise Problem("reserved", "A folder cannot replace the home directory. Name a place in it.")
    if target.startswith(HOME + "/"):
        first = target[len(HOME) + 1 :].split("/", 1)[0]
        if first in _RESERVED_FOLDERS or _RC_FILE.fullmatch(first):
            raise Problem("reserved", f"{first} is used by the session itself.")
        return target
    top = "/" + target.split("/", 2)[1]
    # What begins with a dot there is the container engine's own (/.dockerenv).
    if top in _SYSTEM_DIRECTORIES or target == "/" or top.startswith("/."):
        raise Problem(
            "reserved", f"{top} belongs to the system. Use a place in the home directory."
        )
    return target


def overlapping(targets: list[str]) -> set[int]:
    """Positions of the targets that are equal to an earlier one, or inside any other."""
    clashes: set[int] = set()
    first_at: dict[str, int] = {}
    for index, target in enumerate(targets):
        if first_at.setdefault(target, index) != index:
            clashes.add(index)
    for index, target in enumerate(targets):
        parent = posixpath.dirname(target)
        while parent not in {"/", ""}:
            if parent in first_at:
                clashes.add(index)
            parent = posixpath.dirname(parent)
    return clashes


def used_by(user: str) -> str:
    """The end of the sentence on a port that something else has."""
    return f"is used by {user}."


def closed_ports() -> list[tuple[int, int, str]]:
    """Ports that cannot be preopened: the first and the last of each range of them, and the end of
    the sentence on each."""
    return [
        (0, MIN_PORT - 1, _OUT_OF_RANGE),
        *((port, port, used_by(user)) for port, user in _RESERVED_PORTS.items()),
        (MAX_PORT + 1, 999_999, _OUT_OF_RANGE),
    ]
