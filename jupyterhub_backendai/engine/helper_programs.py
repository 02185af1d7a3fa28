"""Small programs of ours that do one long thing for an agent, and can be killed at any time.

Docker's client gives no way to end a call that waits: with a program its connection closes, and
Docker gives up what it was asked for. What is secret goes by standard input, which nobody sees.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).with_name("programs")


async def said(program: str, order: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
    """What the program says, a JSON value for each of its lines. Whoever stops before the end calls
    `aclose`, which ends it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAMS / program), stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")
        async for line in process.stdout:
            yield json.loads(line)
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.shield(process.wait())
