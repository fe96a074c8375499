"""A worker that somebody has taken over. What it does is chosen by the first line of a connection:

``closes its control socket``, ``sends an empty packet``, ``says`` and a packet.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[sys.argv.index("--control-fd") + 1]))
    control.send(b'{"used_mib": 0}')
    descriptors: list[int] = []
    while not descriptors:  # the agent also says how long this process may live
        _, descriptors, _, _ = socket.recv_fds(control, 4096, 4)
    with socket.socket(fileno=descriptors[0]) as connection, connection.makefile("rw") as lines:
        print(json.dumps({"pid": os.getpid()}), file=lines, flush=True)
        for line in lines:
            word, _, rest = line.strip().partition(": ")
            if word == "closes its control socket":
                control.close()
            elif word == "sends an empty packet":
                control.send(b"")
            elif word == "says":
                control.send(rest.encode())
            print("done", file=lines, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
