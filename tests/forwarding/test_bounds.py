"""However much a program asks for, the worker's memory has a bound, and other programs of the lease go on."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native_build import Build, build

from .minimal_agent import MinimalAgent
from .recorded import Client

SLICE_MIB, TIGHT_MIB = 64, 96
LEAST_MIB = 64
"""What an agent may give a worker for itself at least (``worker_memory_mib``)."""

PRELUDE = """
    STORE = '''
    .version 8.0
    .target sm_75
    .address_size 64
    .visible .entry store(.param .u64 to, .param .u32 value) {
      .reg .u64 %a; .reg .u32 %v;
      ld.param.u64 %a, [to]; ld.param.u32 %v, [value];
      st.global.u32 [%a], %v; ret;
    }
    '''
    def works(c):
        kernel = c.kernel(c.library_of(STORE), 'store')
        memory = c.allocate(4)
        c.launch(kernel, [U64(memory), UINT(7)])
        assert c.copy_out(memory, 4) == b'\\x07\\0\\0\\0'
        c.free(memory)
"""


def program(text: str) -> str:
    return textwrap.dedent(PRELUDE) + textwrap.dedent(text)


@pytest.fixture
def driver(native: Build) -> Path:
    build(native.folder, "softgpu")
    return native.folder / "softgpu" / "libcuda.so.1"


SETTINGS = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": str(SLICE_MIB), "GPU_KERNELS_SOFTGPU_LOG": "stderr"}


@pytest.fixture
def roomy(tmp_path: Path, native: Build, driver: Path) -> Iterator[Client]:
    """A worker as agents start it."""
    with MinimalAgent(tmp_path, native.worker, driver, environment=SETTINGS) as agent:
        yield Client(agent, native)


@pytest.fixture(params=[LEAST_MIB, TIGHT_MIB])
def tight(request: pytest.FixtureRequest, tmp_path: Path, native: Build, driver: Path) -> Iterator[Client]:
    """A worker that may take little memory besides its slice."""
    options = ("--host-memory-mib", str(request.param))
    with MinimalAgent(tmp_path, native.worker, driver, environment=SETTINGS, options=options) as agent:
        yield Client(agent, native)


def own_mib(client: Client) -> int:
    """What the worker has of its own memory, in MiB, and at most had: the peak counts files too."""
    assert client.agent.worker is not None
    status = Path(f"/proc/{client.agent.worker.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


def own_kib(client: Client) -> int:
    """What the worker has now of memory that is no file's."""
    assert client.agent.worker is not None
    status = Path(f"/proc/{client.agent.worker.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))


def test_ten_thousand_streams_and_two_hundred_thousand_events_work(roomy: Client) -> None:
    roomy.check(
        program("""
            c = Cuda()
            streams = [c.out('cuStreamCreate', UINT(1)) for _ in range(10_000)]
            create, record, made = c.library.cuEventCreate, c.library.cuEventRecord, U64()
            first = c.out('cuEventCreate', UINT(2))
            for n in range(200_000):
                assert create(ctypes.byref(made), 2) == 0
                if n % 20 == 0:
                    assert record(made, U64(streams[n // 20])) == 0
            c.call('cuEventSynchronize', U64(first))
            c.synchronize()
            works(c)
            for stream in streams:
                c.call('cuStreamDestroy_v2', U64(stream))
            c.synchronize()
        """)
    )
    assert own_mib(roomy) < 1024


def test_small_memory_that_was_freed_takes_nothing_more(roomy: Client) -> None:
    """Each piece has addresses of its own, of which a page has several."""
    client = roomy.start(
        program("""
            c = Cuda()
            for count in (1, 8000):
                for _ in range(count):
                    memory = c.allocate(4)
                    c.call('cuMemsetD8_v2', U64(memory), ctypes.c_ubyte(7), SIZE(4))
                    c.free(memory)
                c.synchronize()
                print('freed', flush=True)
                sys.stdin.readline()
        """)
    )
    with client:
        assert client.stdout is not None
        assert client.stdin is not None
        assert client.stdout.readline() == "freed\n", client.communicate()[1]
        before = own_kib(roomy)
        client.stdin.write("\n")
        client.stdin.flush()
        assert client.stdout.readline() == "freed\n", client.communicate()[1]
        assert own_kib(roomy) < before + 4096
        client.communicate("\n")


@pytest.mark.parametrize("kind", ["events", "modules", "graphs"])
def test_a_program_that_keeps_asking_is_refused_and_others_go_on(tight: Client, kind: str) -> None:
    hog = tight.start(
        program(f"kind = {kind!r}\n")
        + textwrap.dedent("""
            c = Cuda()
            made, count = U64(), 0
            if kind == 'graphs':
                graph = c.out('cuGraphCreate', UINT(0))
                for _ in range(5000):
                    c.out('cuGraphAddEmptyNode', U64(graph), None, SIZE(0))
            def ask():
                if kind == 'graphs':
                    return c.status('cuGraphInstantiateWithFlags', ctypes.byref(made), U64(graph), U64(0))
                if kind == 'modules':
                    kernels = ''.join(f'.visible .entry k{n}() {{ ret; }}\\n' for n in range(3000))
                    text = f'{STORE}// {count}\\n{kernels}'.encode() + b'\\0'
                    return c.status('cuModuleLoadData', ctypes.byref(made), text)
                for _ in range(1000):
                    c.library.cuEventCreate(ctypes.byref(made), 2)
                return c.status('cuCtxSynchronize')
            while (status := ask()) == SUCCESS:
                count += 1
            print('refused', status, flush=True)
            sys.stdin.readline()
            # What was refused may be told once more; then what is there works.
            while (status := c.status('cuCtxSynchronize')) == OUT_OF_MEMORY:
                pass
            print('alive', status, flush=True)
        """)
    )
    with hog:
        assert hog.stdout is not None
        assert hog.stdout.readline() == "refused 2\n", hog.communicate()[1] + tight.agent.log.read_text()
        tight.check(program("c = Cuda()\nworks(c)\n"))
        assert own_mib(tight) < SLICE_MIB + 4 * TIGHT_MIB
        out, err = hog.communicate("\n", timeout=60)
        assert (out, hog.returncode) == ("alive 0\n", 0), err
    assert "worker_memory_mib" in tight.agent.log.read_text()
    tight.check(program("c = Cuda()\nworks(c)\n"))
