"""The table that ``nvidia-smi`` prints, and its list and its answers to queries (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gpu_kernels.smi.devices import Device, Process, Seen

WIDTH = 89
COLUMNS = (41, 24, 22)
UNKNOWN = "[N/A]"

FORMS = {"csv", "noheader", "nounits"}
T = TypeVar("T")


@dataclass(frozen=True)
class Field:
    unit: str
    of: Callable[[Seen, Device], object]


@dataclass(frozen=True)
class ProcessField:
    unit: str
    of: Callable[[Device, Process], object]


class BadQuestion(Exception):
    """Asked for what is not told; the text says what is."""


def table(seen: Seen, now: str) -> str:
    """The whole table, as wide as NVIDIA's."""
    of = _kind(seen) + (f", course {seen.course}" if seen.course else "")
    lines = [
        now,
        _rule("-", (WIDTH,)),
        _row((f"GPU-KERNELS-SMI    Driver Version: {seen.driver}    CUDA Version: {seen.cuda}",), (WIDTH,)),
        _row((of,), (WIDTH,)),
        _rule("-", COLUMNS),
        _row(("GPU  Name", "Bus-Id", "Volatile Uncorr. ECC"), COLUMNS),
        _row(("Fan  Temp   Perf    Pwr:Usage/Cap", "Memory-Usage", "GPU-Util  Compute M."), COLUMNS),
        _rule("=", COLUMNS),
    ]
    for device in seen.devices:
        lines += [*_device(device), _rule("-", COLUMNS)]
    lines += ["", _rule("-", (WIDTH,)), _row(("Processes of this lease:",), (WIDTH,))]
    lines += [_row((f"{'GPU':<5}{'PID':>10}   {'Process name':<46}{'GPU Memory':>18}",), (WIDTH,))]
    lines += [_rule("=", (WIDTH,)), *_processes(seen), _rule("-", (WIDTH,))]
    return "\n".join(lines)


def _kind(seen: Seen) -> str:
    return f"A slice of a GPU: {seen.size}" if seen.size else "A software GPU of this process alone"


def _device(device: Device) -> list[str]:
    busy = UNKNOWN if device.utilisation is None else f"{device.utilisation}%"
    memory = f"{device.used_mib}MiB / {device.total_mib}MiB"
    heat = "N/A" if device.temperature is None else f"{device.temperature}C"
    power = _watts(device.power_w), _watts(device.power_limit_w)
    return [
        _row((f"{device.index:>3}  {device.name[:34]}", device.bus, "N/A".rjust(20)), COLUMNS),
        _row(
            (
                f"N/A  {heat:<6} N/A     {power[0]} / {power[1]}",
                memory.rjust(22),
                f"{busy:>8}     Default",
            ),
            COLUMNS,
        ),
    ]


def _watts(watts: float | None) -> str:
    return "N/A" if watts is None else f"{watts:.0f}W"


def _processes(seen: Seen) -> list[str]:
    rows = [
        _row(
            (f"{device.index:<5}{each.pid:>10}   {each.name[-45:]:<46}{_mib(each):>18}",),
            (WIDTH,),
        )
        for device in seen.devices
        for each in device.processes
    ]
    return rows or [_row(("  No running processes found",), (WIDTH,))]


def _mib(process: Process) -> str:
    return UNKNOWN if process.used_mib is None else f"{process.used_mib}MiB"


def _rule(mark: str, widths: Iterable[int]) -> str:
    return "+" + "+".join(mark * width for width in widths) + "+"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = (f" {cell[: width - 2]:<{width - 2}} " for cell, width in zip(cells, widths, strict=True))
    return "|" + "|".join(parts) + "|"


def listing(seen: Seen) -> str:
    """What ``-L`` prints."""
    return "\n".join(
        f"GPU {device.index}: {device.name} (UUID: {device.uuid})"
        + (f" (a slice: {seen.size})" if seen.size else "")
        for device in seen.devices
    )


FIELDS: dict[str, Field] = {
    "index": Field("", lambda seen, device: device.index),
    "count": Field("", lambda seen, device: len(seen.devices)),
    "name": Field("", lambda seen, device: device.name),
    "uuid": Field("", lambda seen, device: device.uuid),
    "pci.bus_id": Field("", lambda seen, device: device.bus),
    "driver_version": Field("", lambda seen, device: seen.driver),
    "compute_cap": Field("", lambda seen, device: device.capability),
    "memory.total": Field("MiB", lambda seen, device: device.total_mib),
    "memory.used": Field("MiB", lambda seen, device: device.used_mib),
    "memory.free": Field("MiB", lambda seen, device: device.free_mib),
    "utilization.gpu": Field("%", lambda seen, device: device.utilisation),
    "utilization.memory": Field("%", lambda seen, device: None),
    "temperature.gpu": Field("", lambda seen, device: device.temperature),
    "power.draw": Field("W", lambda seen, device: device.power_w),
    "power.limit": Field("W", lambda seen, device: device.power_limit_w),
}
SYNONYMS = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
PROCESS_FIELDS: dict[str, ProcessField] = {
    "pid": ProcessField("", lambda device, process: process.pid),
    "name": ProcessField("", lambda device, process: process.name),
    "process_name": ProcessField("", lambda device, process: process.name),
    "gpu_uuid": ProcessField("", lambda device, process: device.uuid),
    "gpu_name": ProcessField("", lambda device, process: device.name),
    "used_memory": ProcessField("MiB", lambda device, process: process.used_mib),
    "used_gpu_memory": ProcessField("MiB", lambda device, process: process.used_mib),
}


def query(seen: Seen, names: Sequence[str], form: Sequence[str], now: str) -> str:
    """What ``--query-gpu=NAMES --format=FORM`` prints. Raises ``BadQuestion``."""
    known = {**FIELDS, "timestamp": Field("", lambda seen, device: now)}
    fields = _chosen([SYNONYMS.get(name, name) for name in names], known)
    rows = [[field.of(seen, device) for field in fields] for device in seen.devices]
    return _csv(names, [field.unit for field in fields], rows, form)


def query_apps(seen: Seen, names: Sequence[str], form: Sequence[str]) -> str:
    """What ``--query-compute-apps=NAMES`` prints. Raises ``BadQuestion``."""
    fields = _chosen(names, PROCESS_FIELDS)
    pairs = [(device, process) for device in seen.devices for process in device.processes]
    rows = [[field.of(*pair) for field in fields] for pair in pairs]
    return _csv(names, [field.unit for field in fields], rows, form)


def _chosen(names: Sequence[str], known: Mapping[str, T]) -> list[T]:
    if unknown := [name for name in names if name not in known]:
        raise BadQuestion(
            f"Of a slice there is no {', '.join(map(repr, unknown))}. There are: {', '.join(sorted(known))}."
        )
    return [known[name] for name in names]


def _csv(
    names: Sequence[str], units: Sequence[str], rows: Iterable[Sequence[object]], form: Sequence[str]
) -> str:
    if "csv" not in form or set(form) - FORMS:
        raise BadQuestion(
            f"--format takes csv, and noheader or nounits after a comma, not {','.join(form)!r}."
        )
    plain = "nounits" in form
    lines = [] if "noheader" in form else [_heads(names, units)]
    for values in rows:
        cells = (_cell(value, "" if plain else unit) for value, unit in zip(values, units, strict=True))
        lines.append(", ".join(cells))
    return "\n".join(lines)


def _heads(names: Sequence[str], units: Sequence[str]) -> str:
    return ", ".join(f"{name} [{unit}]" if unit else name for name, unit in zip(names, units, strict=True))


def _cell(value: object, unit: str) -> str:
    if value is None:
        return UNKNOWN
    shown = f"{value:.2f}" if isinstance(value, float) else str(value)
    return f"{shown} {unit}".rstrip()
