#!/usr/bin/env python3
"""An `nvidia-cuda-mps-control` for tests: both interfaces, for as much as the product uses of them.

The folder that it is called in has all of its state, kept between calls as a daemon keeps it:

    calls          what it was told, one call a line: arguments, or lines of input after `<`
    rules          one a line: `old` (no protocol 3), `fail WORDS` (what begins so is refused),
                   `dies` (a server ends as soon as it is made), `status WORD` (of each server),
                   `unlimited` (a namespace's limits are not taken), `user UID` (who owns servers)
    daemons.json   by pipe directory: protocol, servers, their namespaces

A server has a folder in proc there, as a process has one in /proc.
"""

import json
import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(sys.argv[0]).parent
STATE = HERE / "daemons.json"


def refuse(text):
    print(text)
    sys.exit(1)


def rules():
    path = HERE / "rules"
    return path.read_text().splitlines() if path.exists() else []


def rule(name):
    found = next((line for line in rules() if line.split()[0] == name), None)
    return found and found.partition(" ")[2]


class Daemons:
    def __init__(self):
        self.all = json.loads(STATE.read_text()) if STATE.exists() else {}
        self.pipes = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "")

    def save(self):
        STATE.write_text(json.dumps(self.all))

    @property
    def daemon(self):
        if self.pipes not in self.all:
            refuse("Cannot find MPS control daemon process")
        return self.all[self.pipes]

    def start(self, protocol):
        if self.pipes in self.all:
            refuse("An instance of this daemon is already running")
        if not pathlib.Path(self.pipes).is_dir():
            refuse(f"no directory {self.pipes}")
        self.all[self.pipes] = {
            "protocol": protocol,
            "device": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "environment": sorted(os.environ),
            "servers": {},
        }

    def server(self, name, **more):
        pid = 7000 + sum(len(daemon["servers"]) for daemon in self.all.values())
        if rule("dies") is None:
            self.daemon["servers"][name] = {"pid": pid, "namespaces": {}, **more}
            (HERE / "proc" / str(pid)).mkdir(parents=True, exist_ok=True)
        return pid


def socket(directory):
    path = pathlib.Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    (path / "control").touch()


def options(words):
    pairs = (word[2:].split("=", 1) for word in words if word.startswith("--"))
    return {pair[0]: pair[1] if len(pair) > 1 else True for pair in pairs}


def of_server(daemons, verb, name, given):
    servers = daemons.daemon["servers"]
    if verb == "list":
        for one, server in servers.items():
            status = rule("status") or "Ready"
            uid, device = rule("user") or "0", server["device"]
            print(f"{one},{uid},{server['pid']},{status},{daemons.pipes}/{one},{device},-")
        return
    if verb == "create":
        if name in servers:
            refuse(f"Server '{name}' already exists")
        daemons.server(name, device=given["allowed-devices"])
        socket(f"{daemons.pipes}/{name}")
    elif name not in servers:
        refuse(f"Server '{name}' not found")
    elif verb == "delete":
        if servers[name].get("clients") and "force" not in given:
            refuse("Server has active clients")
        shutil.rmtree(f"{daemons.pipes}/{name}")
        del servers[name]
    elif verb == "set":
        servers[name]["default"] = given


def of_namespace(daemons, verb, name, given):
    servers = daemons.daemon["servers"]
    if given["server"] not in servers:
        refuse(f"Server '{given['server']}' not found")
    server = servers[given["server"]]
    namespaces, directory = server["namespaces"], f"{daemons.pipes}/{given['server']}/{name}"
    if verb == "list":
        for one, limits in {"default": server.get("default", {}), **namespaces}.items():
            memory = limits.get("pinned-memory-limit", "-")
            percent = float(limits.get("active-thread-percentage", 100))
            where = f"{daemons.pipes}/{given['server']}/{one}"
            print(f"{one},{given['server']},Ready,{memory},{percent:.2f},0,{where}")
        return
    if verb == "create":
        if name in namespaces:
            refuse(f"Namespace '{name}' already exists")
        namespaces[name] = {}
        socket(directory)
    elif name not in namespaces:
        refuse(f"Namespace '{name}' not found")
    elif verb == "delete":
        shutil.rmtree(directory)
        del namespaces[name]
    elif verb == "set":
        if server.get("clients"):
            refuse("Namespace has active clients")
        if rule("unlimited") is None:
            namespaces[name].update({k: v for k, v in given.items() if k != "server"})


def newer(daemons, words):
    if "-h" in words:
        print("usage: nvidia-cuda-mps-control ... modules: server namespace client")
    elif words[0] == "-d":
        daemons.start(3)
    else:
        if daemons.daemon["protocol"] != 3:
            refuse("Unknown command")
        verbs = {"server": of_server, "namespace": of_namespace}
        names = [word for word in words[2:] if not word.startswith("-")]
        verbs[words[0]](daemons, words[1], names[0] if names else None, options(words))


def older(daemons, lines):
    for line in lines:
        servers = daemons.daemon["servers"]
        word, *rest = line.split()
        if word == "get_server_list":
            print("\n".join(str(server["pid"]) for server in servers.values()))
        elif word == "start_server":
            daemons.server(f"uid {rest[1]}")
        elif word == "get_server_status":
            print(rule("status") or "ACTIVE")
        elif word == "get_client_list":
            print("\n".join(str(c) for one in servers.values() for c in one.get("clients", [])))
        elif word == "quit":
            del daemons.all[daemons.pipes]
            return
        else:
            refuse(f"Unknown command {word}")


def main():
    words = sys.argv[1:]
    daemons = Daemons()
    starts = "-d" in words
    lines = [] if words else sys.stdin.read().splitlines()
    with open(HERE / "calls", "a") as calls:
        print(" ".join(words), *(f"< {line}" for line in lines), sep="", file=calls)
    plain = [word for word in words if word not in {"-p", "3"}]
    for line in rules():
        kind, _, told = line.partition(" ")
        if kind == "fail" and " ".join(plain or lines).startswith(told):
            refuse(f"refused: {told}")
    if "-p" in words and rule("old") is not None:
        refuse(
            "nvidia-cuda-mps-control: invalid option -- 'p'\nusage: nvidia-cuda-mps-control [-d]"
        )
    if "-p" in words:
        newer(daemons, plain)
    elif starts:
        daemons.start(2)
    else:
        older(daemons, lines)
    daemons.save()


main()
