"""What a kernel prints, and why it failed, is with the program when a call that waited returns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native_build import Build, build

from .minimal_agent import MinimalAgent
from .recorded import Client

PRELUDE = "from tests.forwarding.device_text import ALL\nc = Cuda()\nlibrary = c.library_of(ALL)\n"
TELL = "def tell(*words):\n    os.write(1, (' '.join(map(str, words)) + '\\n').encode())\n"


@pytest.fixture
def software(tmp_path: Path, native: Build) -> Iterator[Client]:
    build(native.folder, "softgpu")
    settings = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": "64", "GPU_KERNELS_SOFTGPU_LOG": "stderr"}
    driver = native.folder / "softgpu" / "libcuda.so.1"
    with MinimalAgent(tmp_path, native.worker, driver, environment=settings) as agent:
        yield Client(agent, native)


def program(text: str) -> str:
    """The text after what all programs here begin with."""
    return PRELUDE + TELL + text


def test_printed_text_is_there_when_a_call_that_waited_returns(software: Client) -> None:
    printed = software.check(
        program(
            "k = c.kernel(library, 'print')\n"
            "for n, wait in enumerate([c.synchronize, lambda: c.copy_out(memory, 4),\n"
            "        lambda: c.call('cuStreamSynchronize', U64(0))]):\n"
            "    memory = c.allocate(4)\n"
            "    c.launch(k, [UINT(n)], grid=1, block=2)\n"
            "    wait()\n"
            "    tell('waited', n)\n"
        )
    )
    assert printed == "".join(f"0 0 {n}\n0 1 {n}\nwaited {n}\n" for n in range(3))


def test_text_of_launches_on_one_stream_comes_in_their_order(software: Client) -> None:
    printed = software.check(
        program(
            "k = c.kernel(library, 'print')\n"
            "for n in range(2000):\n"
            "    c.launch(k, [UINT(n)])\n"
            "c.synchronize()\n"
        )
    )
    assert printed == "".join(f"0 0 {n}\n" for n in range(2000))


def test_more_text_than_the_ring_holds_loses_the_oldest_and_says_so(software: Client) -> None:
    done = software.run(
        program(
            "k = c.kernel(library, 'print')\n"
            "c.launch(k, [UINT(1)], grid=200, block=1024)\n"
            "c.launch(k, [UINT(2)])\n"
            "c.synchronize()\n"
        )
    )
    assert len(done.stdout) <= 1 << 20
    lines = done.stdout.splitlines()
    assert lines[-1] == "0 0 2"
    assert all(len(line.split()) == 3 for line in lines)
    assert done.stderr.count("device printf: the oldest") == 1
    assert "cudaLimitPrintfFifoSize" in done.stderr


def test_another_session_of_the_lease_sees_none_of_it(software: Client) -> None:
    with software.start(
        program(
            "c.launch(c.kernel(library, 'print'), [UINT(7)])\n"
            "c.allocate(4)\n"
            "print('launched', flush=True)\n"
            "sys.stdin.readline()\n"
            "c.synchronize()\n"
        )
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        seen = first.stdout.readline()
        other = software.check(program("c.synchronize()\nc.copy_out(c.allocate(4), 4)\n"))
        first.stdin.write("go\n")
        first.stdin.close()
        rest = first.stdout.read()  # not communicate(): it would leave out what readline has read ahead
    assert other == ""
    assert sorted((seen + rest).splitlines()) == ["0 0 7", "launched"]


def test_a_fault_is_told_with_its_place_in_one_line_before_the_error(software: Client) -> None:
    done = software.run(
        program(
            "c.launch(c.kernel(library, 'wild'), [U64(c.allocate(100))], block=64)\n"
            "print(c.status('cuCtxSynchronize'), c.status('cuCtxSynchronize'))\n"
        )
    )
    assert done.stdout == "700 700\n"
    place, summary = done.stderr.splitlines()
    assert place.startswith("gpu-kernels: kernel wild, block (0,0,0), thread (5,0,0): write of 4 bytes")
    assert "nearest allocation" in place or "no allocation is within" in place
    assert "PTX line" in place
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in summary
    assert "thread (5,0,0)" in software.agent.log.read_text()


def test_assert_prints_what_cuda_prints(software: Client) -> None:
    done = software.run(
        program(
            "c.launch(c.kernel(library, 'fail'), grid=2, block=32)\nprint(c.status('cuCtxSynchronize'))\n"
        )
    )
    assert done.stdout == "710\n"
    assert "demo.cu:7: fail: block: [1,0,0], thread: [3,0,0] Assertion `x > 1` failed.\n" in done.stderr


def test_a_closed_standard_output_harms_nobody(software: Client) -> None:
    software.check(
        program(
            "os.close(1)\nc.launch(c.kernel(library, 'print'), [UINT(7)])\nc.synchronize()\nos._exit(0)\n"
        )
    )


def test_text_of_a_real_driver_is_with_the_program_that_launched(client: Client) -> None:
    printed = client.check(
        "c = Cuda()\n" + TELL + "k = c.kernel(c.library_of('entry print\\n'), 'print')\n"
        "c.launch(k)\n"
        "c.synchronize()\n"
        "tell('waited')\n"
        "c.launch(k)\n"
        "c.copy_out(c.allocate(4), 4)\n"
    )
    assert printed == "a kernel printed this\nwaited\na kernel printed this\n"


@pytest.mark.parametrize("room", [8192, 1 << 20])
def test_the_room_for_device_printf_is_what_the_program_set(software: Client, room: int) -> None:
    """4096 threads print 10 bytes each; of what does not fit the oldest is lost, and how much is told."""
    done = software.run(
        program(
            f"c.call('cuCtxSetLimit', INT(1), SIZE({room}))\n"
            "c.launch(c.kernel(library, 'print'), [UINT(7)], grid=4096, block=1)\n"
            "c.synchronize()\n"
        )
    )
    assert done.returncode == 0, done.stderr
    if room > 1 << 17:
        assert (len(done.stdout.splitlines()), done.stderr) == (4096, "")
        return
    assert 0 < len(done.stdout) <= room
    assert f"kernels printed more than {room} bytes" in done.stderr
    assert "raise cudaLimitPrintfFifoSize" in done.stderr


def test_text_that_could_be_of_two_sessions_is_given_to_none(client: Client) -> None:
    """A real driver has one output for the lease."""
    launching = (
        "c = Cuda()\nk = c.kernel(c.library_of('entry print\\n'), 'print')\nc.launch(k)\nc.allocate(4)\n"
    )
    with client.start(
        launching + "print('up', flush=True)\nsys.stdin.readline()\nc.synchronize()\n"
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "up\n"
        other = client.run(launching + "c.synchronize()\n")
        out, err = first.communicate("go\n", timeout=60)
    assert (out, other.stdout) == ("", "")
    assert "device printf is lost" in other.stderr
    assert "device printf is lost" in err
