"""Which addresses may be announced: what is listed and nothing else, and some never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.pool.policy.addresses import PRIVATE, Addresses

DEFAULT = Addresses.of(PRIVATE)
EVERYWHERE = Addresses.of(["0.0.0.0/0", "::/0"])


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:1024", "tcp://10.1.2.3:9960", "tcp://192.168.0.7:65535", "tcp://[::1]:9960",
     "tcp://[fd12::7]:9960", "tcp://[::ffff:10.0.0.1]:9960"],
)  # fmt: skip
def test_private_addresses_may_be_announced_by_default(address: str) -> None:
    assert DEFAULT.refusal(address) is None


@pytest.mark.parametrize(
    "address",
    [
        "tcp://169.254.169.254:8080",
        "tcp://[::ffff:169.254.169.254]:8080",
        "tcp://[fe80::1]:8080",
        "tcp://[fd00:ec2::254]:8080",
        "tcp://100.100.100.200:8080",
        "tcp://168.63.129.16:8080",
        "tcp://0.0.0.0:8080",
        "tcp://[::]:8080",
        "tcp://224.0.0.1:8080",
        "tcp://[ff02::1]:8080",
        "tcp://255.255.255.255:8080",
    ],
)
def test_some_addresses_are_never_a_gpu_servers_whatever_is_listed(address: str) -> None:
    for addresses in (DEFAULT, EVERYWHERE):
        assert "is no address of a GPU server" in (addresses.refusal(address) or "")


@pytest.mark.parametrize(
    "address", ["tcp://8.8.8.8:9960", "tcp://[2001:db8::1]:9960", "tcp://172.32.0.1:9960"]
)
def test_what_is_in_no_listed_network_is_refused(address: str) -> None:
    assert "in none of the networks" in (DEFAULT.refusal(address) or "")
    assert EVERYWHERE.refusal(address) is None


@pytest.mark.parametrize("port", [0, 1, 22, 80, 443, 1023, 65536, 99999])
def test_ports_of_a_machines_own_services_are_refused(port: int) -> None:
    assert "its port is not between 1024 and 65535" in (DEFAULT.refusal(f"tcp://10.0.0.1:{port}") or "")


def test_names_are_not_resolved_and_must_be_listed() -> None:
    """What a name means is the word of each client's resolver: nothing that is looked up here would count."""
    assert "is not listed" in (DEFAULT.refusal("tcp://localhost:9960") or "")
    listed = Addresses.of(["gpu1.example.org", ".pool.example.org", "localhost"])
    for host in (
        "gpu1.example.org",
        "GPU1.Example.ORG",
        "a.pool.example.org",
        "b.a.pool.example.org",
        "localhost",
    ):
        assert listed.refusal(f"tcp://{host}:9960") is None
    for host in ("gpu2.example.org", "pool.example.org", "evilpool.example.org", "gpu1.example.org.evil.net",
                 ".pool.example.org", "gpu1.example.org."):  # fmt: skip
        assert "is not listed" in (listed.refusal(f"tcp://{host}:9960") or "")


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "0251.0376.0251.0376", "0xa9fea9fe"])
def test_what_resolvers_take_for_numbers_is_no_name_and_no_number(host: str) -> None:
    wide = Addresses.of(["0.0.0.0/0", ".org"])
    assert "is not listed" in (wide.refusal(f"tcp://{host}:9960") or "")


def test_sockets_only_in_listed_folders() -> None:
    assert "Unix socket" in (DEFAULT.refusal("unix:///run/gpu/port") or "")
    listed = Addresses.of(["unix:///run/gpu"])
    assert listed.refusal("unix:///run/gpu/port") is None
    assert listed.refusal("unix:///run/gpu/1/port") is None
    for path in ("/run/gpu", "/run/gpu/../docker.sock", "/run/gpus/port", "/run/docker.sock", "run/gpu/port"):
        assert listed.refusal(f"unix://{path}") is not None


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "*",
        "a b",
        "unix://",
        "unix:///",
        "unix://run",
        "unix:///a/../b",
        "-a",
    ],
)
def test_an_entry_that_says_nothing_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="no "):
        Addresses.of([entry])


@given(st.text(max_size=60))
def test_any_text_gets_an_answer_and_no_other_scheme_passes(text: str) -> None:
    assert EVERYWHERE.refusal(text) is not None or text.startswith("tcp://")


@given(st.ip_addresses(v=4))
def test_what_is_allowed_is_what_is_listed(address: object) -> None:
    allowed = DEFAULT.refusal(f"tcp://{address}:9960") is None
    assert allowed == str(address).startswith(
        ("127.", "10.", "192.168.", *(f"172.{n}." for n in range(16, 32)))
    )
