"""The benchmark of the idle checks does what it says, with few sessions; how long it takes is not
looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "idle.py"


def test_the_benchmark_of_idle_checks_asks_servers_as_time_goes_by() -> None:
    """Which it checks itself, too: no session ends, and servers are asked in its rounds."""
    command = [sys.executable, str(SCRIPT), "--sizes", "50", "--rounds", "8", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert {"ratio", "round_cpu_seconds", "mean", "slowest", "short"} <= found.keys()
    assert found["asked"] > 0
    assert found["short"]["asked"] > 0
