import pytest

from tests.pages.site import HubUser, Site
from tests.pool.controller import Agent, ThreadedController


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    # Nobody renews leases here, or reports for the GPU servers.
    long = {"lease_ttl": 3600, "agent_ttl": 3600, "queue_ttl": 3600}
    with ThreadedController(tmp_path_factory.mktemp("pool") / "state", **long) as running:
        yield running


@pytest.fixture(scope="module")
def gpu(controller):
    """A GPU server that carries out at once what it is told."""
    agent = Agent(controller.client("gpu-server"))
    agent.register()
    return agent


@pytest.fixture(scope="module")
def site(controller, gpu, tmp_path_factory):
    with Site(controller.url, tmp_path_factory.mktemp("locale")) as running:
        yield running


@pytest.fixture
def visit(site):
    """`visit("ada")` is ada at her browser, signed in."""
    people = []

    def arrive(name):
        people.append(site.visitor(name))
        return people[-1]

    HubUser.away = False
    yield arrive
    for someone in people:
        someone.http.close()
