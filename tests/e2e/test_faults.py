"""Whatever is killed, nothing is lost, doubled or leaked. Real processes, SIGKILL."""

import signal
import time

import psutil
import pytest

from gpu_kernels.hub_config.lab.processes import marked
from gpu_kernels.hub_config.lab.student_path import SPEC
from gpu_kernels.hub_config.lab.supervisor import answers, wait
from gpu_kernels.pool.settings import PoolSettings
from tests.e2e.conftest import LEASE_TTL, SOON

pytestmark = [pytest.mark.hub, pytest.mark.native]

TOKEN_CACHE = PoolSettings.token_cache.default_value
COMPUTE = """
import numpy as np
from numba import cuda
print(int(cuda.to_device(np.arange(5)).copy_to_host().sum()))
"""


def processes(lab, module, user=None):
    """The lab's processes that run this module or program (of this user's server)."""
    found = []
    for process in marked(lab.settings.marker):
        try:
            runs = module in process.cmdline()[:3] or process.exe().endswith(module)
            if runs and user in (None, process.environ().get("JUPYTERHUB_USER")):
                found.append(process)
        except psutil.Error:
            continue
    return found


def the_process(lab, module, user=None):
    (process,) = processes(lab, module, user)
    return process


def the_lease(lab):
    (lease,) = lab.leases()
    return lease


def start_and_compute(someone, path="work.ipynb"):
    """A kernel that has used its GPU: its session and its open channel."""
    session = someone.start_kernel(SPEC, path)
    channel = someone.channel(session["kernel"]["id"])
    assert channel.execute(COMPUTE).text.strip() == "10"
    return session, channel


def test_a_killed_server_gives_its_slice_back_within_the_time_to_live(lab, at_work):
    start_and_compute(at_work("ana"))
    assert the_lease(lab).ttl == LEASE_TTL
    the_process(lab, "gpu_kernels.hub_config.singleuser", "ana").send_signal(signal.SIGKILL)
    assert the_lease(lab).expires_in <= LEASE_TTL
    wait(lambda: not lab.leases(), LEASE_TTL + SOON, "the slice is not back")
    wait(lambda: not processes(lab, "gpu-worker"), SOON, "the worker lives")
    assert [gpu.used_mib for gpu in lab.gpus()] == [0]


def test_a_killed_kernel_comes_back_on_the_same_lease(lab, at_work):
    ana = at_work("ana")
    session, channel = start_and_compute(ana)
    before = the_lease(lab)
    channel.close()
    kernel = the_process(lab, "ipykernel_launcher", "ana")
    kernel.send_signal(signal.SIGKILL)
    psutil.wait_procs([kernel], timeout=SOON)
    wait(lambda: processes(lab, "ipykernel_launcher", "ana"), SOON, "it stays dead")
    with ana.channel(session["kernel"]["id"]) as channel:
        channel.kernel_info()
        assert channel.execute(COMPUTE).text.strip() == "10"
    assert (the_lease(lab).id, the_lease(lab).epoch) == (before.id, before.epoch)


def test_a_killed_controller_forgets_no_lease_and_doubles_none(lab, at_work):
    _, channel = start_and_compute(at_work("ana"))
    before = the_lease(lab)
    controller = the_process(lab, "gpu_kernels.pool")
    controller.send_signal(signal.SIGKILL)
    assert channel.execute(COMPUTE).text.strip() == "10"
    wait(lambda: answers(f"{lab.settings.controller_url}/api"), SOON, "the controller stays away")
    after = the_lease(lab)
    assert (after.id, after.epoch, after.slices) == (before.id, before.epoch, before.slices)
    assert sum(gpu.used_mib for gpu in lab.gpus()) == after.mib
    assert channel.execute(COMPUTE).text.strip() == "10"
    channel.close()


@pytest.mark.slow
def test_a_hub_that_stands_still_costs_nobody_a_slice(lab, at_work):
    """Longer than a lease lives and than the hub's word on a token counts while it answers."""
    _, channel = start_and_compute(at_work("ana"))
    before = the_lease(lab)
    hub = the_process(lab, "jupyterhub")
    away_since = time.monotonic()
    hub.suspend()
    try:
        wait(
            lambda: time.monotonic() - away_since > TOKEN_CACHE + 1.5 * LEASE_TTL,
            60,
            "the clock stands still",
        )
        after = the_lease(lab)
        assert (after.id, after.epoch, after.state) == (before.id, before.epoch, "active")
        assert channel.execute(COMPUTE).text.strip() == "10"
    finally:
        hub.resume()
    channel.close()
    wait(lambda: answers(f"{lab.settings.url}/hub/health"), SOON, "the hub does not go on")


def test_a_killed_agent_takes_its_workers_along_and_its_leases_end(lab, at_work):
    ana = at_work("ana")
    _, channel = start_and_compute(ana)
    wait(lambda: the_lease(lab).state == "active", SOON, "the agent does not say that a worker runs")
    lease = the_lease(lab)
    lab.agent.kill()
    wait(lambda: not processes(lab, "gpu-worker"), SOON, "the worker lives")
    assert channel.execute(COMPUTE).error is not None
    channel.close()
    assert sum(gpu.used_mib for gpu in lab.gpus()) == lease.mib
    lab.start_agent()
    wait(lambda: lease.id not in [left.id for left in lab.leases()], SOON, "the lease is still there")
    assert sum(gpu.used_mib for gpu in lab.gpus()) == 0
    with ana.pool_client(lab.settings.controller_url) as pool:
        ended = pool.get(lease.id)
    assert ended.state == "freed"
    assert ended.reason
