"""A worker that somebody has taken over and that no filter holds: it does what a connection's lines say.

``open PATH``, ``kill PID SIGNAL``, ``escape`` (a child leaves the session and closes everything),
``eat`` (as much memory as there is).
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[sys.argv.index("--control-fd") + 1]))
    control.send(b'{"used_mib": 0}')
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, 4096, 4)
        if not packet:
            os._exit(0)
        for descriptor in descriptors:
            with socket.socket(fileno=descriptor) as connection, connection.makefile("rw") as lines:
                status = Path("/proc/self/status").read_text()
                print(json.dumps({"pid": os.getpid(), "status": status}), file=lines, flush=True)
                for line in lines:
                    print(attempt(*line.split()), file=lines, flush=True)


def attempt(what: str, *words: str) -> str:
    try:
        if what == "open":
            Path(words[0]).open("rb").close()
        elif what == "kill":
            os.kill(int(words[0]), int(words[1]))
        elif what == "escape":
            return str(escape())
        elif what == "eat":
            eaten = [b"x" * (16 << 20) for _ in range(1 << 16)]
            return str(len(eaten))
        return "done"
    except OSError as error:
        return error.__class__.__name__


def escape() -> int:
    """The process that got away: no group, session or descriptor says whose it is."""
    said, says = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            os.write(says, str(os.getpid()).encode())
            os.closerange(0, 1024)
            while True:
                time.sleep(60)
        os._exit(0)
    os.wait()
    return int(os.read(said, 20))


if __name__ == "__main__":
    main()
