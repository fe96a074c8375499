"""The file by which a process shows the others of its lease what it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forwarding.recorded import Client

pytestmark = pytest.mark.native


def test_a_number_that_a_program_has_closed_and_opened_anew_is_not_written_to(
    client: Client, tmp_path: Path
) -> None:
    out = client.check(f"""
        c = Cuda()
        first = c.allocate(1 << 20)
        path = "/proc/self/fd/{{}}".format
        links = {{fd: os.readlink(path(fd)) for fd in range(3, 256) if os.path.lexists(path(fd))}}
        (shown,) = [fd for fd, link in links.items() if link.startswith("/memfd:gpu-kernels ")]
        before = os.pread(shown, 8, 0)
        os.dup2(os.open({str(tmp_path / "mine")!r}, os.O_RDWR | os.O_CREAT), shown)
        os.write(shown, b"what is mine")
        second = c.allocate(1 << 20)
        c.free(first)
        print(int.from_bytes(before, "little"), os.pread(shown, 64, 0))
    """)
    assert out == f"{1 << 20} b'what is mine'\n"
