"""What runs inside a container of the red team: one try of a user to have more than a share.

    python3 -I attackers.py '{"do": "memory", "most": 1073741824, "env": {"HOME": null}}'

The last line that it writes is a JSON object. Standard library only, and CUDA's driver API, which
the NVIDIA container toolkit brings into every container with a GPU: no CUDA in the image.

Every job may have `env` (variables to change before anything is loaded, null: unset), `clean` (no
variable at all but PATH) and `program` (another Python to be run by).
"""

from __future__ import annotations

import ctypes
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

LIBRARY = "libcuda.so.1"
MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
FOR_ALL_STREAMS = 1  # CU_MEM_ATTACH_GLOBAL
FINEST = 2 * 2**20  # bytes, the driver's own grain
THREADS = 256  # of a block
BLOCKS = 64  # for each multiprocessor: several times as many as run at once
LAUNCH = 0.02  # seconds that one launch is to take
CONTROL = "nvidia-cuda-mps-control"
TOUCHED = 0x5A

# `work`: so many rounds of arithmetic in each thread. Not so many ticks of a clock: a clock goes
# on while another session's time slice runs. `fault`: a store to where nothing is.
PTX = b"""
.version 6.3
.target sm_70
.address_size 64

.visible .entry work(.param .u64 place, .param .u32 rounds)
{
    .reg .pred %more, %hit;
    .reg .b32 %wanted, %done, %value, %factor, %addend;
    .reg .b64 %at;

    ld.param.u64 %at, [place];
    ld.param.u32 %wanted, [rounds];
    cvta.to.global.u64 %at, %at;
    mov.u32 %value, %tid.x;
    mov.u32 %factor, 1664525;
    mov.u32 %addend, 1013904223;
    mov.u32 %done, 0;
NEXT:
    mad.lo.u32 %value, %value, %factor, %addend;
    add.u32 %done, %done, 1;
    setp.lt.u32 %more, %done, %wanted;
    @%more bra NEXT;
    setp.eq.u32 %hit, %value, %wanted;
    @%hit st.global.u32 [%at], %value;
    ret;
}

.visible .entry fault()
{
    .reg .b32 %value;
    .reg .b64 %at;

    mov.u64 %at, 16;
    mov.u32 %value, 1;
    st.global.u32 [%at], %value;
    ret;
}
\0"""


class Refused(Exception):
    """The driver did not do what it was asked: the call, and what it answered."""


class Cuda:
    """The driver API, with a context on the first device once `begin` was called."""

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise Refused(f"no {path}: {error}") from None
        self._context = ctypes.c_void_p()
        self._device = ctypes.c_int()
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        """Raises `Refused`."""
        code = getattr(self._library, name)(*arguments)
        if code:
            raise Refused(f"{name}: {self._error(code)}")

    def _error(self, code: int) -> str:
        name = ctypes.c_char_p()
        if self._library.cuGetErrorName(code, ctypes.byref(name)) or not name.value:
            return str(code)
        return f"{name.value.decode()} ({code})"

    def devices(self) -> list[str]:
        """The 32 hexadecimal digits of each device's UUID."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        # The older call tells a MIG device's GPU.
        newer = hasattr(self._library, "cuDeviceGetUuid_v2")
        found = []
        for number in range(count.value):
            device, uuid = ctypes.c_int(), ctypes.create_string_buffer(16)
            self.call("cuDeviceGet", ctypes.byref(device), number)
            self.call("cuDeviceGetUuid_v2" if newer else "cuDeviceGetUuid", uuid, device)
            found.append(uuid.raw.hex())
        return found

    def begin(self) -> None:
        """Raises `Refused` where this process may not use the device."""
        self.call("cuDeviceGet", ctypes.byref(self._device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(self._context), 0, self._device)

    def allocate(self, size: int) -> None:
        """Memory of the device, kept until this process ends."""
        self.call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size))

    def allocate_managed(self, size: int) -> None:
        """Memory that the driver may move, written to by the device once."""
        place = ctypes.c_uint64()
        self.call("cuMemAllocManaged", ctypes.byref(place), ctypes.c_size_t(size), FOR_ALL_STREAMS)
        self.call("cuMemsetD8_v2", place, ctypes.c_ubyte(TOUCHED), ctypes.c_size_t(size))
        self.call("cuCtxSynchronize")

    def memory(self) -> tuple[int, int]:
        """Bytes that are free, and all there are, as a program is told."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def multiprocessors(self) -> int:
        """How many a program is told that it has."""
        found = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(found), MULTIPROCESSORS, self._device)
        return found.value

    def kernel(self, name: bytes) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name)
        return function

    def launch(self, kernel: ctypes.c_void_p, blocks: int, *parameters: Any) -> None:
        """Runs a kernel to its end."""
        places = (ctypes.c_void_p * max(1, len(parameters)))(
            *(ctypes.cast(ctypes.pointer(one), ctypes.c_void_p) for one in parameters)
        )
        threads = THREADS if parameters else 1
        self.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, None, places, None)
        self.call("cuCtxSynchronize")


class Worker:
    """Arithmetic at full speed, and how fast it goes."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._kernel = cuda.kernel(b"work")
        self._place = ctypes.c_uint64()
        cuda.call("cuMemAlloc_v2", ctypes.byref(self._place), ctypes.c_size_t(4096))
        self._blocks = BLOCKS * max(1, cuda.multiprocessors())
        self._rounds = 1000
        took = self._once()  # the driver translates the kernel first
        for _ in range(4):
            took = self._once()
            self._rounds = min(2**31, max(1, int(self._rounds * LAUNCH / max(took, 1e-6))))

    def _once(self) -> float:
        start = time.monotonic()
        self._cuda.launch(self._kernel, self._blocks, self._place, ctypes.c_uint32(self._rounds))
        return time.monotonic() - start

    def until(self, end: float) -> tuple[int, float]:
        """Rounds of all threads until a time of the wall clock, and the seconds that they took."""
        start, launches = time.monotonic(), 0
        while time.time() < end:
            self._once()
            launches += 1
        done = launches * self._blocks * THREADS * self._rounds
        return done, time.monotonic() - start


# ---- what can be tried --------------------------------------------------------------------------


def memory(job: dict) -> dict:
    """As much memory as there is to be had, `most` at most; held for `hold` seconds."""
    cuda = Cuda(job.get("library", LIBRARY))
    cuda.begin()
    allocate = cuda.allocate_managed if job.get("managed") else cuda.allocate
    most, reached = job["most"], 0
    size, ended = max(FINEST, most // 32), ""
    while reached < most and size >= FINEST:
        try:
            allocate(min(size, most - reached))
            reached += min(size, most - reached)
        except Refused as refused:
            ended = str(refused)
            size //= 2
    free, total = cuda.memory()
    time.sleep(job.get("hold", 0))
    return {"bytes": reached, "refused": ended, "free": free, "total": total}


def unheld(job: dict) -> dict:
    """The same without any variable, and by the library's own path: what a static program has."""
    Cuda()  # so that it is loaded, and its path known
    with open("/proc/self/maps") as maps:
        found = re.search(r"(/\S*libcuda\.so\S*)", maps.read())
    return memory({**job, "library": found[1] if found else LIBRARY})


def again(job: dict) -> dict:
    """Tries for `seconds` to have more than `allowed`, in new processes: a limit may be away for
    a moment."""
    until, tries = time.monotonic() + job["seconds"], 0
    best: dict = {}
    while time.monotonic() < until and best.get("bytes", 0) <= job["allowed"]:
        found = run_apart({**job, "do": "memory"})
        tries += 1
        if not best or found.get("bytes", 0) > best.get("bytes", 0):
            best = found
    return {**best, "tries": tries}


def devices(job: dict) -> dict:
    """All the devices that there are to be had, by every value of CUDA_VISIBLE_DEVICES."""
    seen: dict[str, list[str]] = {}
    why = ""
    for value in [None, *job["values"]]:
        found = run_apart({"do": "count", "env": {"CUDA_VISIBLE_DEVICES": value}})
        if value is None:
            why = found.get("error", "")
        for uuid in found.get("devices", ()):
            seen.setdefault(uuid, []).append("unset" if value is None else value)
    nodes = sorted(glob.glob("/dev/nvidia[0-9]*"))
    variable = os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    return {"devices": seen, "nodes": nodes, "variable": variable, "why": why}


def count(job: dict) -> dict:
    """The devices of this process."""
    return {"devices": Cuda().devices()}


def compute(job: dict) -> dict:
    """Arithmetic from `at` until `seconds` later, by the wall clock that all containers share."""
    cuda = Cuda()
    cuda.begin()
    worker = Worker(cuda)
    late = time.time() > job["at"]
    while time.time() < job["at"]:
        time.sleep(0.001)
    begun = time.time()
    done, seconds = worker.until(job["at"] + job["seconds"])
    return {
        "rate": done / seconds,
        "begun": begun,
        "ended": time.time(),
        "late": late,
        "multiprocessors": cuda.multiprocessors(),
    }


def fault(job: dict) -> dict:
    """A store that the device cannot do: whether it was noticed, and when."""
    cuda = Cuda()
    cuda.begin()
    kernel = cuda.kernel(b"fault")
    late = "at" in job and time.time() > job["at"]
    while time.time() < job.get("at", 0):
        time.sleep(0.001)
    try:
        cuda.launch(kernel, 1)
    except Refused as refused:
        return {"fault": str(refused), "when": time.time(), "late": late}
    return {"fault": ""}


def identity(job: dict) -> dict:
    """Who a program is that the image has as root's with the setuid bit."""
    found = os.stat(job["file"])
    return {
        "uid": os.getuid(),
        "euid": os.geteuid(),
        "owner": found.st_uid,
        "setuid": bool(found.st_mode & 0o4000),
        "nosuid": bool(os.statvfs(job["file"]).f_flag & os.ST_NOSUID),
    }


def admin(job: dict) -> dict:
    """Commands that change limits, to the daemon whose socket the container has."""
    done = []
    for command in job["commands"]:
        try:
            said = subprocess.run(
                [job["control"], *command["arguments"]],
                input=command.get("text", ""), capture_output=True, text=True, timeout=20,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            done.append({**command, "code": -1, "said": str(error)})
            continue
        output = (said.stdout + said.stderr).strip()[-300:]
        done.append({**command, "code": said.returncode, "said": output})
    return {"commands": done}


def pipes(job: dict) -> dict:
    """Which of these directories this container can see."""
    return {"there": [path for path in job["paths"] if os.path.isdir(path)]}


def cgroup(job: dict) -> dict:
    """Lifts the container's own limit where the kernel has it, as far as its user may."""
    tried = {}
    for path in sorted(glob.glob("/sys/fs/cgroup/**/dmem.max", recursive=True)):
        try:
            with open(path) as file:
                regions = [line.split()[0] for line in file if line.strip()]
            with open(path, "w") as file:
                for region in regions:
                    file.write(f"{region} max\n")
            tried[path] = "written"
        except OSError as error:
            tried[path] = os.strerror(error.errno or 0)
    return {"tried": tried}


JOBS = {
    job.__name__: job
    for job in (
        memory, unheld, again, devices, count, compute, fault, identity, admin, pipes, cgroup,
    )
}  # fmt: skip


# ---- how a job is run ---------------------------------------------------------------------------


def command_of(job: dict) -> list[str]:
    program = job.get("program") or sys.executable
    kept = {name: value for name, value in job.items() if name not in {"env", "clean", "program"}}
    return [program, "-I", os.path.abspath(__file__), json.dumps(kept)]


def environment_of(job: dict) -> dict[str, str]:
    found = {"PATH": os.environ.get("PATH", "")} if job.get("clean") else dict(os.environ)
    for name, value in (job.get("env") or {}).items():
        found.pop(name, None)
        if value is not None:
            found[name] = value
    return found


def run_apart(job: dict) -> dict:
    """The answer of a job in a process of its own."""
    done = subprocess.run(command_of(job), env=environment_of(job), capture_output=True, text=True)
    return answer_of(done.stdout) or {"error": f"ended with {done.returncode}"}


def answer_of(output: str) -> dict | None:
    lines = output.strip().splitlines()
    return json.loads(lines[-1]) if lines and lines[-1].startswith("{") else None


def side_by_side(job: dict, number: int) -> dict:
    """Several processes with the same job: each keeps what it has until all have answered."""
    each = {**job, "stay": True}
    del each["processes"]
    running = [
        subprocess.Popen(
            command_of(each), env=environment_of(each), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        for _ in range(number)
    ]  # fmt: skip
    answers = []
    for one in running:
        assert one.stdout is not None
        answers.append(answer_of(one.stdout.readline()) or {"error": "no answer"})
    for one in running:
        one.communicate()
    summed = {
        name: sum(answer.get(name, 0) for answer in answers)
        for name in ("bytes", "rate")
        if any(name in answer for answer in answers)
    }
    return {**summed, "processes": answers}


def main() -> None:
    """The command."""
    job = json.loads(sys.argv[1])
    if job["do"] == "wait":  # what a container has as its own program
        signal.pause()
        return
    number = job.get("processes", 0)
    if not number and (job.get("env") or job.get("clean") or job.get("program")):
        command = command_of(job)
        os.execve(command[0], command, environment_of(job))
    try:
        found = side_by_side(job, number) if number else JOBS[job["do"]](job)
    except Refused as refused:
        found = {"error": str(refused)}
    print(json.dumps(found), flush=True)
    if job.get("stay"):
        sys.stdin.read()


if __name__ == "__main__":
    main()
