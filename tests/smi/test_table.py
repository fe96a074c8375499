"""What ``nvidia-smi`` prints of a slice: the table, the list, and answers to queries."""

from __future__ import annotations

import pytest

from gpu_kernels.smi import table
from gpu_kernels.smi.__main__ import main, parser
from gpu_kernels.smi.devices import Device, NoDevices, Process, Seen, look

DEVICE = Device(
    index=0,
    name="V100 (software GPU)",
    uuid="GPU-1",
    bus="00000000:00:00.0",
    total_mib=655,
    used_mib=312,
    utilisation=14,
    temperature=None,
    power_w=None,
    power_limit_w=None,
    capability="7.5",
    processes=(Process(42, "/usr/bin/python", 312), Process(43, "p" * 90, None)),
)
SEEN = Seen("0.1", "13.0", "0.02 V100", "ml101", (DEVICE,))
NOW = "Sat Nov 21 22:00:00 2026"
FORM = ["csv", "noheader", "nounits"]


def test_the_table_says_that_it_is_of_a_slice_and_has_its_numbers():
    lines = table.table(SEEN, NOW).splitlines()
    assert lines[0] == NOW
    assert {len(line) for line in lines[1:] if line} == {table.WIDTH + 2}
    text = "\n".join(lines)
    for part in ("A slice of a GPU: 0.02 V100, course ml101", "312MiB / 655MiB", "14%", "CUDA Version: 13.0"):
        assert part in text
    assert "42" in text
    assert "/usr/bin/python" in text


def test_a_slice_that_nobody_uses_has_no_processes():
    idle = Seen("0.1", "13.0", "0.02 V100", "", (Device(**{**vars(DEVICE), "processes": ()}),))
    assert "No running processes found" in table.table(idle, NOW)


def test_a_query_is_answered_as_nvidias_is():
    names = ["name", "memory.total", "memory.used", "utilization.gpu"]
    assert table.query(SEEN, names, FORM, NOW) == "V100 (software GPU), 655, 312, 14"
    assert table.query(SEEN, names, ["csv"], NOW) == (
        "name, memory.total [MiB], memory.used [MiB], utilization.gpu [%]\n"
        "V100 (software GPU), 655 MiB, 312 MiB, 14 %"
    )
    assert table.query(SEEN, ["temperature.gpu", "timestamp"], ["csv", "noheader"], NOW) == f"[N/A], {NOW}"
    assert table.query_apps(SEEN, ["pid", "used_memory"], FORM) == "42, 312\n43, [N/A]"


@pytest.mark.parametrize("name", [*table.FIELDS, *table.SYNONYMS])
def test_each_property_that_is_named_is_answered(name):
    assert table.query(SEEN, [name], FORM, NOW)


@pytest.mark.parametrize("ask", [["fan.speed"], ["name", "no"], [""]])
def test_a_property_that_a_slice_does_not_have_is_refused_with_those_it_has(ask):
    with pytest.raises(table.BadQuestion, match=r"There are: .*memory\.used"):
        table.query(SEEN, ask, FORM, NOW)


@pytest.mark.parametrize("form", [[], ["noheader"], ["csv", "xml"]])
def test_a_form_that_is_none_is_refused(form):
    with pytest.raises(table.BadQuestion, match="--format takes csv"):
        table.query(SEEN, ["name"], form, NOW)


def test_the_list_names_each_gpu():
    assert table.listing(SEEN) == "GPU 0: V100 (software GPU) (UUID: GPU-1) (a slice: 0.02 V100)"


def test_without_a_slice_it_says_so_as_nvidias_does_and_why(monkeypatch, capsys):
    for name in ("GPU_KERNELS_ATTACH", "GPU_KERNELS_LEASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GPU_KERNELS_REFUSAL", "ml101 is at its limit.")
    assert main([]) == 6
    said = capsys.readouterr()
    assert said.out == "No devices were found\n"
    assert said.err == "ml101 is at its limit.\n"


def test_it_waits_for_nothing_and_says_how_long_the_line_is(monkeypatch):
    told = {"state": "waiting", "text": "Waiting for 0.02 V100: number 3 in the line."}
    monkeypatch.setattr("gpu_kernels.attach.ask", lambda at, **request: told)
    with pytest.raises(NoDevices, match="number 3 in the line"):
        look({"GPU_KERNELS_ATTACH": "unix:///a"})


def test_its_help_says_that_it_is_not_nvidias(capsys):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--help"])
    assert ended.value.code == 0
    assert "This is not NVIDIA's program" in capsys.readouterr().out
