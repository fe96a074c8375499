"""What ``%gpu`` shows: gathered from the environment, the controller and the GPU server, each of which may
fail.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from importlib.util import find_spec
from typing import Any

from gpu_kernels import attach
from gpu_kernels.client import Lease, PoolClient
from gpu_kernels.durations import duration
from gpu_kernels.endings import why_ended
from gpu_kernels.errors import PoolError
from gpu_kernels.magics.query import AgentSilent, SliceStatus, query, transport
from gpu_kernels.pytorch.releases import WHAT_RUNS_WHERE

CONTROLLER_TIMEOUT_S = 3.0
NO_GPU = (
    "This kernel has no GPU.",
    "To get a slice of one, choose a kernel whose name has a size, such as 'Python 3 (0.02 V100)',",
    "in the menu Kernel, Change Kernel.",
)
ASK_AGAIN = "'%gpu wait' asks for another one, and so does the next CUDA call; your variables and files stay."
SERVER_SILENT = (
    "The Jupyter server that looks after the slice does not answer, so this is what it was at the start."
)
TRY_AGAIN = "Restart the kernel to ask again (menu Kernel, Restart Kernel); your files are not affected."


@dataclass
class Report:
    """A table of rows under a headline, and remarks under it; text for terminals, HTML for notebooks."""

    headline: str
    rows: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    used: tuple[int, int] | None = None
    """Memory used and total, in MiB, for the bar."""
    first: list[str] = field(default_factory=list)
    """Lines between the headline and the table."""

    def __repr__(self) -> str:
        width = max((len(name) for name, _ in self.rows), default=0)
        table = [f"  {name.ljust(width)}  {value}" for name, value in self.rows]
        return "\n".join([self.headline, *self.first, *table, *self.remarks])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th>'
            f'<td style="text-align:left">{escape(value)}{self._bar(name)}</td></tr>'
            for name, value in self.rows
        )
        table = f"<table>{rows}</table>" if rows else ""
        headline = f"<strong>{escape(self.headline)}</strong>"
        return f"<div>{headline}{_divs(self.first)}{table}{_divs(self.remarks)}</div>"

    def _bar(self, name: str) -> str:
        if name != "memory" or self.used is None:
            return ""
        used, total = self.used
        return f' <meter min="0" max="{total}" high="{total * 9 // 10}" value="{used}"></meter>'


def _divs(lines: list[str]) -> str:
    return "".join(f"<div>{escape(line)}</div>" for line in lines)


def look(environ: Mapping[str, str] | None = None) -> Report:
    """The report for a process with this environment. Never raises: what cannot be learned becomes a
    remark.
    """
    environ, stands = attach.present(environ)
    if stands is not None and stands["state"] != "attached":
        return _without_slice(stands)
    if "GPU_KERNELS_LEASE" not in environ:
        return _without_lease(environ)
    report = Report(f"A slice of {environ.get('GPU_KERNELS_SIZE', 'a GPU')}")
    lease = _ask_controller(environ, report)
    if lease is not None and not lease.in_force:
        return _ended(lease, can_ask=stands is not None)
    slices = _ask_agent(environ, report)
    _fill(report, environ, lease, slices)
    if stands is None and attach.address(environ) is not None:
        report.remarks.append(SERVER_SILENT)
    if stands is not None and "wanted" in stands:
        report.remarks += [str(stands["wanted"]["text"]), "Until then you keep this slice."]
    return report


def _without_slice(stands: Mapping[str, Any]) -> Report:
    """It waits for one, has given it back, or was refused it."""
    headline, *remarks = str(stands["text"]).splitlines() or ["This kernel has no slice of a GPU."]
    if stands["state"] == "waiting":
        remarks.append("Your place in the line is kept. '%gpu wait' shows how it moves.")
    return Report(headline, remarks=remarks)


def _without_lease(environ: Mapping[str, str]) -> Report:
    if refusal := environ.get("GPU_KERNELS_REFUSAL"):
        return Report("This kernel was restarted without a GPU.", remarks=[*refusal.splitlines(), TRY_AGAIN])
    if environ.get("GPU_KERNELS_DEVICE") == "software":
        headline = "This process runs straight on a software GPU of its own; no pool is involved."
        return Report(headline, first=_of_pytorch("software"))
    return Report(NO_GPU[0], remarks=list(NO_GPU[1:]))


def _ended(lease: Lease, *, can_ask: bool) -> Report:
    now = ASK_AGAIN if can_ask else TRY_AGAIN
    why = f"Why: {why_ended(lease.state, lease.reason)}."
    return Report(f"This kernel's slice of {lease.size} is over.", remarks=[why, now])


def _ask_controller(environ: Mapping[str, str], report: Report) -> Lease | None:
    try:
        with PoolClient.from_environment(environ, timeout=CONTROLLER_TIMEOUT_S) as client:
            return client.get(environ["GPU_KERNELS_LEASE"])
    except PoolError as error:
        report.remarks += [line for line in str(error).splitlines() if "Python 3" not in line]
        return None


def _ask_agent(environ: Mapping[str, str], report: Report) -> list[SliceStatus]:
    try:
        return query(
            environ["GPU_KERNELS_AGENT"],
            environ["GPU_KERNELS_LEASE"],
            int(environ["GPU_KERNELS_EPOCH"]),
            bytes.fromhex(environ["GPU_KERNELS_SECRET"]),
        )
    except AgentSilent as error:
        report.remarks += str(error).splitlines()
    except (KeyError, ValueError):
        report.remarks.append("The environment of this kernel does not say where its GPU is.")
    return []


def _fill(report: Report, environ: Mapping[str, str], lease: Lease | None, slices: list[SliceStatus]) -> None:
    rows = report.rows
    if lease is not None:
        share = f"{lease.thousandths / 10:g} % of a GPU's time" if lease.thousandths <= 1000 else ""
        rows.append(("slice", ", ".join(filter(None, [lease.size, f"{lease.mib} MiB", share]))))
    if slices:
        used, total = sum(part.used_mib for part in slices), sum(part.total_mib for part in slices)
        report.used = (used, total)
        rows.append(("memory", f"{used} of {total} MiB used"))
        rows += [("GPU", _gpu_text(part)) for part in slices]
    address = environ.get("GPU_KERNELS_AGENT", "")
    name = f"{lease.agent_name}, " if lease is not None and lease.agent else ""
    rows.append(("server", f"{name}{address}"))
    rows.append(("transport", transport(address)))
    if lease is not None:
        if left := _time_left(lease):
            rows.append(("time left", left))
        rows.append(("lease", _lease_text(lease)))
    report.first = _of_pytorch(slices[0].device if slices else environ.get("GPU_KERNELS_DEVICE", ""))
    if course := (lease.course if lease is not None else environ.get("GPU_KERNELS_COURSE")):
        rows.append(("course", course))


def _of_pytorch(device: str) -> list[str]:
    """What a program of PyTorch has to know where its GPU is of this kind, before it imports it too."""
    if device != "software" or find_spec("torch") is None:
        return []
    torch = sys.modules.get("torch")
    without_cuda = torch is not None and getattr(getattr(torch, "version", None), "cuda", None) is None
    return [] if without_cuda else [WHAT_RUNS_WHERE]


def _gpu_text(part: SliceStatus) -> str:
    # A software GPU says so in its name; nobody should take its speed for a GPU's.
    kind = ", runs on processor cores" if part.device == "software" else ""
    busy = "" if part.utilisation is None else f", {part.utilisation:g} % busy"
    return f"{part.name}{kind}{busy}"


def _lease_text(lease: Lease) -> str:
    now = "in use" if lease.state == "active" else "granted, not used yet"
    return f"{now}; renewed while this kernel runs"


def _time_left(lease: Lease) -> str:
    """Until what ends it, however it is renewed: a class, and its longest life."""
    most = "" if lease.ends_in is None else f"{duration(lease.ends_in)} at most"
    if lease.preempt_in is None or (lease.ends_in is not None and lease.ends_in < lease.preempt_in):
        return most
    way = f"{duration(lease.preempt_in)}, then it makes way for a class"
    return f"{way}; {most}" if most else way
