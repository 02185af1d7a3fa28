"""Everything that is tried, in its order."""

from __future__ import annotations

from judging import LIMIT, NOWHERE, PERCENT, PIPE, PROCESSES, Case
from memory_cases import (
    admin,
    allocating,
    managed,
    own_cgroup,
    own_device_named,
    processes,
    restart,
    unheld,
    with_mps,
    wrong_pipes,
)
from session_cases import (
    attributed,
    fault_window,
    neighbours_fault,
    neighbours_pipe,
    no_gpu,
    other_devices,
    racing,
    setuid,
    told_size,
)

CASES = (
    Case("plain", "memory", "allocate more than the share, nothing else", False, allocating()),
    Case("processes", "memory", f"{PROCESSES} processes that each have nine tenths of the share",
         True, processes),
    Case("managed", "memory", "managed memory over the share, written to by the GPU", True,
         managed),
    Case("own-device-named", "memory", "the own GPU by its UUID in CUDA_VISIBLE_DEVICES", True,
         own_device_named),
    Case("no-variables", "memory", "no variable and no LD_PRELOAD, as a static program has it",
         True, unheld),
    Case("pipe-unset", "memory", f"{PIPE} unset", True, with_mps(**{PIPE: None})),
    Case("pipe-wrong", "memory", f"{PIPE} nowhere, in /tmp, at the server's own, above it", True,
         wrong_pipes),
    Case("limit-unset", "memory", f"{LIMIT} unset", True, with_mps(**{LIMIT: None})),
    Case("limit-raised", "memory", f"{LIMIT} for all of the GPU", True,
         with_mps(**{LIMIT: "0=1048576M"})),
    Case("limit-of-invisible-gpu", "memory", f"{LIMIT} of a GPU that is not visible", True,
         with_mps(**{LIMIT: f"{NOWHERE}=1G"})),
    Case("admin", "memory", "commands to MPS over the mounted socket, then more memory", True,
         admin),
    Case("own-cgroup", "memory", "write to the limit of the container's own cgroup", True,
         own_cgroup),
    Case("compute", "compute", "compute beside a neighbour that computes", False, racing()),
    Case("compute-processes", "compute", f"the same with {PROCESSES} processes", True,
         racing(processes=PROCESSES)),
    Case("percentage-raised", "compute", f"{PERCENT}=100 beside a neighbour", True,
         racing(PIPE, env={PERCENT: "100"})),
    Case("percentage-unset", "compute", f"{PERCENT} unset beside a neighbour", True,
         racing(PERCENT, env={PERCENT: None})),
    Case("fault", "faults", "a fatal fault while a neighbour computes, which must go on", False,
         neighbours_fault),
    Case("fault-window", "memory", f"straight after a fault, {PIPE} unset", True, fault_window),
    Case("other-devices", "access", "other GPUs by index, by UUID and by `all`, which image and "
         "user have in NVIDIA_VISIBLE_DEVICES", True, other_devices),
    Case("no-gpu", "access", "a session with no GPU looks for one, in the same image", True,
         no_gpu),
    Case("setuid", "access", "a program of root's with the setuid bit", True, setuid),
    Case("neighbours-pipe", "access", "the neighbour's MPS directory", True, neighbours_pipe),
    Case("told-size", "told", "what cudaMemGetInfo says is the size", False, told_size),
    Case("told-use", "told", "whether the driver's samples tell who computes", False, attributed),
    # The last: nobody but us starts a container of a session again.
    Case("restart", "memory", "docker restart, then more than the share", True, restart),
)  # fmt: skip
