"""One lab for the whole session: hub, proxy, controller and agent as real processes on free loopback ports.

Leases live for seconds here, so that the tests see expiry happen. The tests share the lab and leave it as
they found it: no server, no lease, every service up. `restored` checks that after each one.
"""

import pytest

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.settings import Settings
from gpu_kernels.hub_config.lab.student import Student
from gpu_kernels.hub_config.lab.supervisor import Lab, wait

LEASE_TTL = 10
"""Whoever renews may stand still for six seconds, beside a browser and a dozen servers."""
ROOMY = 1000
SOON = 60.0


def pytest_collection_modifyitems(items):
    """Servers, kernels and browsers start in all of these, three at a time on a busy machine."""
    for item in items:
        if "e2e" in item.path.parts and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    settings = Settings.on_free_ports(tmp_path_factory.mktemp("lab"), lease_ttl=LEASE_TTL)
    with Lab(settings) as running:
        yield running
    assert running.problems == []


@pytest.fixture(autouse=True)
def restored(lab):
    """Ends each test with the lab as it began, and each course with room for everyone."""
    set_limit(lab, ROOMY)
    yield
    lab.check_alive()
    lab.stop_servers()
    wait(lambda: not lab.leases(), SOON, "a test left leases")


@pytest.fixture
def person(lab):
    """`person("ana")` is ana at her browser, logged in."""
    people = []

    def arrive(name):
        someone = Student(lab.settings.url, accounts.logins(lab.settings.secrets)[name])
        people.append(someone)
        someone.log_in()
        return someone

    yield arrive
    for someone in people:
        someone.close()


@pytest.fixture
def at_work(person):
    """`at_work("ana")` is ana in JupyterLab, on a running server."""

    def start(name):
        someone = person(name)
        someone.start_server()
        someone.open_lab()
        return someone

    return start


def set_limit(lab, thousandths, course=accounts.COURSE):
    with lab.pool as pool:
        pool.set_limit(course, {lab.settings.gpu_class: thousandths})
