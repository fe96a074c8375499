"""A worker that speaks the agent's protocol and serves no GPU: it answers what a connection sends.

Each connection first gets one line of JSON: process id, arguments, environment, and the Hello as it came.
Then every line is a command: ``echo TEXT``, ``usage JSON``, ``fault TEXT``, ``stderr TEXT``, ``flood N``,
``child`` (starts a process that outlives its parent), ``exit CODE``.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[sys.argv.index("--control-fd") + 1]))
    control.send(b'{"used_mib": 0}')
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, 4096, 4)
        if not packet:
            os._exit(0)
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            threading.Thread(target=serve, args=(control, connection, packet), daemon=True).start()


def serve(control: socket.socket, connection: socket.socket, hello: bytes) -> None:
    facts = {
        "pid": os.getpid(),
        "argv": sys.argv,
        "env": dict(os.environ),
        "hello": hello.hex(),
        "session": os.getsid(0),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
        "no_new_privs": "NoNewPrivs:\t1" in Path("/proc/self/status").read_text(),
        "uid": os.getuid(),
        "most_descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }
    with connection, connection.makefile("rw") as lines:
        print(json.dumps(facts), file=lines, flush=True)
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word == "echo":
                print(rest, file=lines, flush=True)
            elif word == "usage":
                control.send(rest.encode())
            elif word == "fault":
                control.send(json.dumps({"fault": rest}).encode())
            elif word == "stderr":
                print(rest, file=sys.stderr, flush=True)
            elif word == "flood":
                for _ in range(int(rest)):
                    control.send(b"{not json")
                print("flooded", file=lines, flush=True)
            elif word == "child":
                child = subprocess.Popen(["sleep", "600"])
                print(child.pid, file=lines, flush=True)
            elif word == "exit":
                os._exit(int(rest))


if __name__ == "__main__":
    main()
