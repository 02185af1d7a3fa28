"""How much of a cluster's GPUs is handed out, by the method that places sessions on them.

    python benchmarks/placement.py --trace DIR [--seeds 42 43 …] [--json]

DIR has the node and pod lists of the published trace of Alibaba's cluster ("openb", 1,213 nodes
with 6,212 GPUs): openb_node_list_gpu_node.csv and openb_pod_list_default.csv. As in the paper (Weng
et al., USENIX ATC 2023) the pods are shuffled by each seed and, up to 130 % of the cluster's GPUs,
drawn again; they come one after the other, what does not fit is turned away, and nothing ends.
Told is how much of all GPUs is not handed out once as much has come as there is (100 %), and at
130 %: the mean of the seeds. The published methods' own figures are 4.77 and 4.61 at best.

With --json the last line is {"unallocated": {"100": …, "130": …}, "decision_ms": …} for our method;
`decision_ms` is the 99th percentile.
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # beside this lies a queue.py that is not Python's own

import argparse
import csv
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from jupyterhub_backendai.scheduling import fragments
from jupyterhub_backendai.scheduling.packing import WHOLE, Cost, Free, Packing, Wish

NODES, PODS = "openb_node_list_gpu_node.csv", "openb_pod_list_default.csv"
ARRIVED = (1.0, 1.3)  # of the cluster's GPUs
OURS = "priced gradient"


class Trace:
    """The nodes, as they are when nothing runs, and the pods, as they came."""

    def __init__(self, folder: Path) -> None:
        self.nodes = [
            Free(int(row["cpu_milli"]), int(row["memory_mib"]), (WHOLE,) * int(row["gpu"]))
            for row in _rows(folder / NODES)
        ]
        self.pods = [_wish(row) for row in _rows(folder / PODS)]
        self.capacity = sum(sum(node.gpus) for node in self.nodes)
        self.largest = Free(
            max(node.cpu for node in self.nodes), max(node.mem for node in self.nodes),
            max((node.gpus for node in self.nodes), key=len),
        )  # fmt: skip

    def arrivals(self, seed: int) -> list[Wish]:
        """Pods in the order in which they come, until 130 % of the capacity is asked."""
        random = Random(seed)
        come = random.sample(self.pods, len(self.pods))
        asked = sum(wish.amount for wish in come)
        while asked < ARRIVED[-1] * self.capacity:
            come.append(random.choice(self.pods))
            asked += come[-1].amount
        return come


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _wish(row: dict[str, str]) -> Wish:
    return Wish(
        int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]) * int(row["gpu_milli"])
    )


def methods(trace: Trace) -> dict[str, Callable[[], Cost]]:
    """What is compared, each made anew for each run."""
    usual = fragments.usual_sizes(trace.pods)
    shares = fragments.popular_shares(trace.pods)
    return {
        "first fit": lambda: fragments.first_fit,
        "best fit": lambda: fragments.best_fit(trace.largest),
        "tightest fit": lambda: fragments.tightest_fit,
        "gradient (FGD)": lambda: fragments.gradient(usual),
        OURS: lambda: fragments.priced_gradient(usual, shares, trace.largest),
    }


def run(trace: Trace, cost: Cost, seed: int, took: list[float]) -> list[float]:
    """What is not handed out at each of `ARRIVED`, in percent; seconds of each decision go to
    `took`."""
    packing, come = Packing(trace.nodes, cost), 0
    found: list[float] = []
    for wish in trace.arrivals(seed):
        began = time.perf_counter()
        place = packing.find(wish)
        if place is not None:
            packing.take(place)
        took.append(time.perf_counter() - began)
        come += wish.amount
        while len(found) < len(ARRIVED) and come >= ARRIVED[len(found)] * trace.capacity:
            free = sum(sum(machine.gpus) for machine in packing.machines)
            found.append(100 * free / trace.capacity)
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, required=True, help="the folder of the trace")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(42, 52)))
    parser.add_argument("--json", action="store_true", help="end with our figures as JSON")
    options = parser.parse_args()
    trace = Trace(options.trace)
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    print(f"{len(trace.nodes)} nodes, {trace.capacity // WHOLE} GPUs, {len(trace.pods)} pods")
    print(f"means of seeds {options.seeds}")
    print(f"{'':18} {'100 %':>7} {'130 %':>7}   decision: median, 99 %, slowest")
    for name, make in methods(trace).items():
        took: list[float] = []
        results = [run(trace, make(), seed, took) for seed in options.seeds]
        full, more = (statistics.mean(column) for column in zip(*results, strict=True))
        took.sort()
        middle, late, last = (1000 * took[int(at * (len(took) - 1))] for at in (0.5, 0.99, 1))
        print(f"{name:18} {full:7.2f} {more:7.2f}   {middle:.3f}, {late:.2f}, {last:.0f} ms")
    if options.json:
        figures = {"100": round(full, 3), "130": round(more, 3)}
        print(json.dumps({"unallocated": figures, "decision_ms": round(late, 3)}))


if __name__ == "__main__":
    main()
