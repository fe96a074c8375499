"""The agent and its controller, when all is well and when it is not."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec import to_builtins

from tests.agent.conftest import gone, is_alive
from tests.agent.lanes import exchange, hello, lane

ENDED, UNKNOWN = 6, 3


async def test_the_agent_registers_its_gpus(controller, agent, inventory):
    await controller.next_reports()
    (registration,) = controller.registrations
    assert registration["address"] == agent.address
    assert registration["gpus"] == [to_builtins(gpu.offered()) for gpu in inventory.gpus]
    assert len(registration["boot_id"]) >= 16


async def test_a_started_worker_is_reported_at_once(controller, agent):
    lease = await controller.grant("lease-a")
    async with lane(agent.address, lease) as open_lane:
        report = await controller.report_where(lambda report: report["leases"])
        (entry,) = report["leases"]
        assert (entry["id"], entry["epoch"], entry["state"]) == ("lease-a", 1, "active")
        await open_lane.say('usage {"used_mib": 5, "peak_mib": 6, "sessions": 1, "launches": 8}')
        await controller.grant("lease-b")  # so that another report is made
        await controller.report_where(
            lambda report: any(
                (e["used_mib"], e["peak_mib"], e["sessions"], e["launches"]) == (5, 6, 1, 8)
                for e in report["leases"]
            )
        )


async def test_an_agent_that_the_controller_forgot_registers_again_and_goes_on(controller, agent):
    lease = await controller.grant("lease-a")
    async with lane(agent.address, lease) as open_lane:
        controller.refuse_with = (404, "unknown_agent")
        await controller.grant("lease-b")
        await controller.until(lambda: len(controller.registrations) >= 2)
        controller.refuse_with = None
        controller.target_seq = 1  # a new ledger counts from the start
        await controller.next_reports(2)
        assert await open_lane.ask("echo same worker") == "same worker"
        assert len({registration["boot_id"] for registration in controller.registrations}) == 1


async def test_an_agent_whose_name_was_taken_stops_serving_and_comes_back_as_another(
    controller, agent, monkeypatch
):
    monkeypatch.setattr("gpu_kernels.remoting.agent.reporter.REPLACED_PAUSE_S", 0.05)
    lease = await controller.grant("lease-a")
    async with lane(agent.address, lease) as open_lane:
        controller.refuse_with = (409, "agent_replaced")
        await controller.grant("lease-b")
        await open_lane.ended()
        controller.refuse_with = None
        await controller.until(lambda: len(controller.registrations) >= 2)
        await gone(open_lane.facts["pid"])
    boots = [registration["boot_id"] for registration in controller.registrations]
    assert len(set(boots)) == len(boots)


@pytest.mark.parametrize(("status", "code"), [(409, "agent_elsewhere"), (403, "address_refused")])
async def test_an_agent_that_is_not_let_in_says_why_once_and_is_let_in_later(
    controller, serve, caplog, status, code
):
    controller.refuse_with = (status, code)
    async with serve():
        await controller.until(lambda: len(controller.registrations) >= 3)
        assert caplog.text.count(f"told to say {code}") == 1
        controller.refuse_with = None
        await controller.next_reports()
    assert len({registration["boot_id"] for registration in controller.registrations}) == 1


async def test_without_its_controller_the_agent_serves_until_the_lease_would_end_and_then_fences_itself(
    controller, agent, ahead
):
    short = await controller.grant("lease-short", ttl=60.0)
    long = await controller.grant("lease-long", ttl=600.0)
    async with lane(agent.address, short) as fenced, lane(agent.address, long) as going_on:
        await controller.go_away()
        assert await fenced.ask("echo served") == "served"
        async with lane(agent.address, short, lane=1) as late:
            assert late.facts["pid"] == fenced.facts["pid"]
        ahead.let_pass(60.0)
        await fenced.ended()
        await gone(fenced.facts["pid"])
        status, text = await exchange(agent.address, hello(short))
        assert (status, "lost touch" in text) == (ENDED, True)
        assert await going_on.ask("echo still in force") == "still in force"


async def test_a_fenced_lease_is_served_again_when_the_controller_is_back_and_still_wants_it(
    controller, agent, ahead
):
    lease = await controller.grant("lease-a", ttl=60.0)
    async with lane(agent.address, lease) as first:
        await controller.go_away()
        ahead.let_pass(60.0)
        await first.ended()
    await controller.come_back()
    await controller.next_reports(2)
    async with lane(agent.address, lease) as second:
        assert second.facts["pid"] != first.facts["pid"]


async def test_renewals_reach_the_agent_before_its_own_deadline(controller, serve, settings, ahead):
    # Nothing changes but the lease's time, which each reply tells anew.
    controller.instead_of_lingering = ahead.let_pass
    async with serve(dataclasses.replace(settings, report_every_s=600.0)) as agent:
        lease = await controller.grant("lease-a", ttl=60.0)
        async with lane(agent.address, lease) as open_lane:
            began = ahead.by
            await controller.until(lambda: ahead.by - began > 3 * 60.0)
            assert await open_lane.ask("echo never lapsed") == "never lapsed"


async def test_a_reply_that_was_overtaken_does_no_harm(controller, agent):
    lease = await controller.grant("lease-a")
    async with lane(agent.address, lease) as open_lane:
        await controller.carried_out()
        controller.replies.append({"target_seq": 0, "incarnation": controller.incarnation, "leases": []})
        await controller.grant("lease-b")  # ends the long poll; the next report gets the old reply
        await controller.next_reports(2)
        assert await open_lane.ask("echo unharmed") == "unharmed"


@pytest.mark.parametrize(
    "reply",
    [
        {"target_seq": "many", "leases": []},
        {"target_seq": 10**6, "leases": [{"id": "x"}]},
        {"target_seq": 10**6, "leases": "none"},
        {"target_seq": 10**6},
        ["not", "an", "object"],
        {
            "target_seq": 10**6,
            "leases": [{"id": 7, "epoch": "1", "secret_sha256": 5, "expires_in": "1", "slices": []}],
        },
    ],
)
async def test_a_reply_that_makes_no_sense_does_no_harm(controller, agent, reply):
    lease = await controller.grant("lease-a")
    async with lane(agent.address, lease) as open_lane:
        await controller.carried_out()
        controller.replies.append(reply)
        await controller.grant("lease-b")
        await controller.next_reports(2)
        assert await open_lane.ask("echo unharmed") == "unharmed"


async def test_what_the_controller_asks_wrongly_is_not_served_and_the_rest_is(controller, agent):
    good = await controller.grant("lease-good")
    bad = await controller.grant("lease-bad")
    controller.leases["lease-bad"]["slices"][0]["gpu"] = "GPU-of-another-server"
    await controller.grant("lease-c")
    await controller.carried_out()
    assert (await exchange(agent.address, hello(bad)))[0] in (ENDED, UNKNOWN)
    async with lane(agent.address, good):
        pass


async def test_ending_agents_leave_no_worker_and_say_so(controller, serve, settings):
    async with serve() as agent:
        lease = await controller.grant("lease-a")
        async with lane(agent.address, lease) as open_lane:
            pid = open_lane.facts["pid"]
    assert not is_alive(pid)
    assert controller.reports[-1]["leases"] == []
    assert controller.reports[-1]["target_seq"] == controller.target_seq


async def test_a_restarted_agent_refuses_what_ended_before(controller, serve):
    async with serve() as agent:
        lease = await controller.grant("lease-a")
        await controller.carried_out()
        await controller.end("lease-a")
        await controller.carried_out()
        address = agent.address
    async with serve() as agent:
        assert agent.address == address, "a restart keeps the port that clients were told"
        await controller.grant("lease-a")  # as from a ledger that was restored
        await controller.carried_out()
        assert (await exchange(agent.address, hello(lease)))[0] == UNKNOWN


async def test_two_agents_cannot_share_a_state_folder(serve, settings):
    async with serve():
        with pytest.raises(Exception, match="another agent uses the state folder"):
            async with serve(dataclasses.replace(settings, name="gpu-server-2")):
                pass
