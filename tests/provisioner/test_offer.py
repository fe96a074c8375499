"""What the launcher shows, and what is told of a kernel's slice."""

from __future__ import annotations

import asyncio
import socket

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from gpu_kernels import offer
from gpu_kernels.errors import PoolError
from gpu_kernels.offer import ANYTHING, Offer, Offers
from gpu_kernels.provisioner import attachments
from gpu_kernels.provisioner.snapshot import look, snapshot
from gpu_kernels.specs import GPUKernelSpecManager
from tests.provisioner.conftest import point_at
from tests.provisioner.pool import wait_until


@pytest.fixture
def offered(monkeypatch):
    """Sets what the course offers, as if the controller had said so."""

    def offers(*sizes: str) -> None:
        known = Offers()
        known._offer = Offer("ml101", offer.sizes_of({"sizes": list(sizes)}), ("0.02 V100", "1 V100"))
        known._thread = object()
        monkeypatch.setattr(offer, "OFFERS", known)

    return offers


@pytest.fixture
def manager(specs, offered):
    offered()
    specs("small", "1/50 V100")
    specs("large", "1 V100")
    specs("odd", "a lot")
    (specs.folder / "plain").mkdir()
    (specs.folder / "plain" / "kernel.json").write_text(
        '{"argv": ["python3"], "display_name": "Python 3", "language": "python"}'
    )
    (specs.folder / "broken").mkdir()
    (specs.folder / "broken" / "kernel.json").write_text("{")
    return GPUKernelSpecManager(kernel_dirs=[str(specs.folder)], ensure_native_kernel=False)


def test_only_the_sizes_on_offer_are_shown_and_all_kernels_that_ask_for_none(manager, offered):
    offered("0.02 V100")
    assert sorted(manager.get_all_specs()) == ["plain", "small"]
    offered("20/1000 V100", "1 V100")
    assert sorted(manager.get_all_specs()) == ["large", "plain", "small"]
    offered()
    assert sorted(manager.get_all_specs()) == ["plain"]


CLASSES = {"V100": 500, "A100": None}


@pytest.mark.parametrize(
    ("size", "offer"),
    [
        ("0.5 V100", Offer("ml101", None, (), most=CLASSES)),
        ("4 A100", Offer("ml101", None, (), most=CLASSES)),
        ("1 GPU", Offer("ml101", None, (), most=CLASSES)),
        ("16384 MiB V100", Offer("ml101", None, (), most=CLASSES, memory={"V100": 32768})),
        ("0.1 V100", Offer("ml101", None, (), most=CLASSES, largest={"V100": 100})),
        ("0.5 A100", Offer("ml101", None, (), most=CLASSES, largest={"V100": 100})),
        ("0.1 V100", Offer("ml101", ("0.1 GPU",), (), most=CLASSES)),
    ],
)
def test_what_the_course_may_have_is_offered(size, offer):
    assert offer.offers(size)


@pytest.mark.parametrize(
    ("size", "offer"),
    [
        ("1 V100", Offer("ml101", None, (), most=CLASSES)),
        ("0.02 H100", Offer("ml101", None, (), most=CLASSES)),
        ("0.02 V100", Offer("ml101", None, (), most={"V100": 0})),
        ("1 GPU", Offer("ml101", None, (), most={"V100": 500})),
        ("20000 MiB V100", Offer("ml101", None, (), most=CLASSES, memory={"V100": 32768})),
        ("0.2 V100", Offer("ml101", None, (), most=CLASSES, largest={"V100": 100})),
        ("2 A100", Offer("ml101", None, (), most=CLASSES, largest={"": 1000})),
        ("0.2 GPU", Offer("ml101", None, (), most=CLASSES, largest={"V100": 100})),
        ("0.2 V100", Offer("ml101", ("0.1 GPU",), (), most=CLASSES)),
    ],
)
def test_what_is_never_granted_in_the_course_is_not_offered(size, offer):
    assert not offer.offers(size)
    assert offer.to_choose() == tuple(each for each in offer.sizes or () if each != size)


def test_a_notebook_still_finds_a_kernel_that_is_not_shown(manager, offered):
    offered("0.02 V100")
    assert manager.get_kernel_spec("large").display_name == "Test (1 V100)"


def test_all_are_shown_until_the_controller_has_answered(manager, specs, monkeypatch):
    monkeypatch.delenv("GPU_KERNELS_CONTROLLER", raising=False)
    monkeypatch.setattr(offer, "OFFERS", Offers())
    everything = KernelSpecManager(kernel_dirs=[str(specs.folder)], ensure_native_kernel=False)
    assert manager.get_all_specs() == everything.get_all_specs()


def test_what_is_on_offer_is_asked_of_the_controller_by_a_thread(pool):
    offers = Offers(refresh_s=3600)
    assert offers.now() == ANYTHING
    assert offers.asked.wait(60)
    known = offers.now()
    assert (known.course, known.sizes) == ("ml101", None)
    assert "0.02 V100" in known.to_choose()
    assert known.offers("0.7 V100")


def test_a_limit_that_is_lowered_takes_away_what_is_more_than_it(pool):
    offers = Offers()
    pool.limit(20)
    offers.refresh()
    assert offers._offer.to_choose() == ("0.02 V100",)
    pool.limit(1000)
    pool.admin.set_rules("ml101", {"max_size": {"": 100}})
    offers.refresh()
    pool.admin.set_rules("ml101", {})
    assert offers._offer.to_choose() == ("0.02 V100", "0.1 V100")


@pytest.fixture
def two_sizes(pool):
    """The course offers two sizes, until the test is over."""
    pool.admin.set_rules("ml101", {"sizes": ["0.02 V100", "1/10 V100"]})
    yield
    pool.admin.set_rules("ml101", {})


def test_a_course_that_names_its_sizes_offers_no_others(pool, two_sizes):
    offers = Offers()
    offers.refresh()
    known = offers._offer
    assert known.to_choose() == ("0.02 V100", "0.1 V100")
    assert known.offers("20/1000 V100")
    assert not known.offers("0.05 V100")


async def test_a_hidden_size_is_refused_by_the_controller_with_those_on_offer(
    pool, two_sizes, specs, make_kernel
):
    with pytest.raises(PoolError, match=r"0\.02 V100") as refusal:
        await make_kernel(specs("lazy", "0.05 V100", start="lazy", first_wait_s=100)).start_kernel()
    assert "0.1 V100" in str(refusal.value)
    assert pool.leases() == []


def test_a_controller_that_is_away_changes_nothing_and_is_said_once(monkeypatch, caplog):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    point_at(monkeypatch, f"http://127.0.0.1:{port}")
    offers = Offers()
    offers._offer = known = Offer("ml101", ("0.02 V100",), ())
    offers.refresh()
    offers.refresh()
    assert offers._offer is known
    assert caplog.text.count("cannot be asked for") == 1


async def test_a_snapshot_tells_how_a_kernel_stands_without_asking_anybody(pool, specs, make_kernel):
    kernel = make_kernel(specs("lazy", "0.02 V100", start="lazy", first_wait_s=100))
    await kernel.start_kernel()
    attachment = attachments.get(kernel.kernel_id)
    told = snapshot(attachment)
    (lease,) = pool.in_force()
    assert told.id == kernel.kernel_id
    assert (told.state, told.size, told.course) == ("attached", "0.02 V100", "ml101")
    assert (told.lease, told.device, told.total_mib) == (lease.id, "software", 655)
    assert (told.used_mib, told.ends_in) == (None, None)
    # This pool's agent does not answer on its data port; the controller knows when the lease ends.
    told = await asyncio.to_thread(look, attachment)
    assert told.used_mib is None
    assert 0 < told.ends_in <= 12 * 3600
    assert told.ends_why == "longest life"
    await asyncio.to_thread(attachment.release)
    told = snapshot(attachment)
    assert (told.state, told.lease, told.ends_in) == ("released", None, None)
    assert "given back" in told.text
    await kernel.shutdown_kernel(now=True)
    wait_until(lambda: pool.leases() == [])
