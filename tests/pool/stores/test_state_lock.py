"""The lock of a state folder: who holds it knows whether the controller before it is dead."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from gpu_kernels.pool.service.role import StateLock


def test_one_at_a_time_holds_it(tmp_path: Path) -> None:
    first, second = StateLock(tmp_path), StateLock(tmp_path)
    assert first.hold()
    assert first.hold(), "holding it again is no change"
    assert not second.hold()
    first.release()
    assert second.hold()
    assert not first.hold()
    second.release()


def test_it_tells_whose_term_was_the_last(tmp_path: Path) -> None:
    first = StateLock(tmp_path)
    assert first.hold()
    assert first.read() == ""
    first.write("a long incarnation")
    first.write("short")
    first.release()
    second = StateLock(tmp_path)
    assert second.hold()
    assert second.read() == "short"
    second.release()
    second.release()


HOLDS = """
import sys
from pathlib import Path
from gpu_kernels.pool.service.role import StateLock
lock = StateLock(Path(sys.argv[1]))
assert lock.hold()
lock.write("mine")
print("held", flush=True)
sys.stdin.read()
"""


def test_it_ends_with_its_process(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    lock = StateLock(tmp_path)
    assert not lock.hold()
    process.kill()
    process.communicate()
    assert lock.hold()
    assert lock.read() == "mine"
    lock.release()


def test_a_controller_of_an_older_version_holds_it_too(tmp_path: Path) -> None:
    """It locked the same file, and wrote nothing into it."""
    with (tmp_path / "lock").open("w") as older:
        fcntl.flock(older, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not StateLock(tmp_path).hold()
    newer = StateLock(tmp_path)
    assert newer.hold()
    assert newer.read() == ""
    newer.release()
