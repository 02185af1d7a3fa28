"""Makes the SSH keys of users, each once."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ..model.keys import SshKeys


def new_keys() -> SshKeys:
    """Two new pairs: of Ed25519, which every OpenSSH of the last ten years knows, and Dropbear."""
    private, public = _pair("id_container")
    host_private, host_public = _pair("backendai-session")
    return SshKeys(private, public, host_private, host_public)


def _pair(comment: str) -> tuple[str, str]:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()} {comment}"
