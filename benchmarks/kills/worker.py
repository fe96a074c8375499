"""A worker that uses no GPU and leaves a witness: a file that says since when and until when it lived.

It speaks the agent's protocol (docs/design.md, "Agent and worker") and ends by itself at the time it was
told. Run by an agent, with nothing but the standard library; ``KILLS_HISTORY`` is the folder of witnesses.
The last moment is written every few milliseconds, so it survives kill -9.
"""

import json
import mmap
import os
import select
import socket
import struct
import sys
import time

BEAT_S = 0.008
LAST = struct.Struct("<d")
LAST_AT = 4088
LIVE = b"GPUKLIVE"


def main() -> None:
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    control = socket.socket(fileno=int(options["--control-fd"]))
    until = int(options["--live-until"]) / 1000
    facts = {
        "start": time.time(),
        "gpus": options["--uuid"].split(","),
        "mib": [int(mib) for mib in options["--memory-mib"].split(",")],
        "pid": os.getpid(),
    }
    witness = _witness(facts)
    LAST.pack_into(witness, LAST_AT, time.time())
    control.send(b'{"used_mib": 1}')
    lanes = []
    while time.clock_gettime(time.CLOCK_BOOTTIME) < until:
        LAST.pack_into(witness, LAST_AT, time.time())
        readable, _, _ = select.select([control], [], [], BEAT_S)
        if not readable:
            continue
        packet, descriptors, _, _ = socket.recv_fds(control, 4096, 4)
        if not packet:
            os._exit(0)
        if packet.startswith(LIVE):
            until = int.from_bytes(packet[8:16], "little") / 1000
        for descriptor in descriptors:
            lane = socket.socket(fileno=descriptor)
            facts["epoch"] = int.from_bytes(packet[32:40], "little")
            facts["lease"] = packet[40:80].rstrip(b"\0").decode()
            _write(witness, facts)
            lane.send(b"w")
            lanes.append(lane)
    os._exit(3)


def _witness(facts: dict[str, object]) -> mmap.mmap:
    name = os.path.join(os.environ["KILLS_HISTORY"], f"{os.getpid()}-{time.time_ns()}.worker")
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    os.truncate(file, 4096)
    witness = mmap.mmap(file, 4096)
    _write(witness, facts)
    return witness


def _write(witness: mmap.mmap, facts: dict[str, object]) -> None:
    text = json.dumps(facts).encode()
    witness[: len(text) + 1] = text + b"\n"


if __name__ == "__main__":
    main()
