"""Whether a history is one of a pool that never sold anything twice, kept its word, and lost nothing.

The workers' witnesses say who really used what, the clients' histories what they were told, and the ledger's
rows what was decided. All times are of one machine's wall clock, in seconds; an interval that a witness tells
is a part of the true one, so an overlap that is found is one.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.kills.worker import LAST, LAST_AT
from gpu_kernels.pool.ledger.commands.termination import NOT_RENEWED
from gpu_kernels.pool.ledger.state.rows import Event, Gpu, Lease, Row, Slice
from gpu_kernels.pool.ledger.state.states import FINAL, HOLDING

ROUNDING_S = 0.002
"""The ledger's times are whole milliseconds, taken at the beginning of a decision."""


@dataclass(frozen=True)
class Use:
    """One worker's life, as far as it is witnessed: by whom (empty: no client had come yet), and what."""

    lease: str
    epoch: int
    pid: int
    start: float
    last: float
    parts: tuple[tuple[str, int], ...]


def uses(folder: Path) -> list[Use]:
    """The witnesses that workers left in a folder."""
    found = []
    for path in sorted(folder.glob("*.worker")):
        data = path.read_bytes()
        try:
            facts = json.loads(data[: data.index(b"\n")])
            (last,) = LAST.unpack_from(data, LAST_AT)
        except (ValueError, struct.error):
            continue  # killed before it had said anything, and so before it could use anything
        parts = tuple(zip(facts["gpus"], facts["mib"], strict=True))
        found.append(
            Use(facts.get("lease", ""), facts.get("epoch", 0), facts["pid"], facts["start"], last, parts)
        )
    return found


def told(folder: Path) -> list[dict[str, Any]]:
    """What all clients wrote down, by time."""
    lines = [line for path in folder.glob("*.client") for line in path.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines if line.endswith("}")), key=lambda line: line["end"])


class Checker:
    """``violations`` are sentences; none is what the project claims."""

    def __init__(self, rows: Iterable[Row], used: Sequence[Use], said: Sequence[dict[str, Any]]) -> None:
        rows = list(rows)
        self.leases = {row.id: row for row in rows if isinstance(row, Lease)}
        self.slices = [row for row in rows if isinstance(row, Slice)]
        self.gpus = {row.uuid: row for row in rows if isinstance(row, Gpu)}
        self.events = sorted((row for row in rows if isinstance(row, Event)), key=lambda row: row.id)
        self.used, self.said = used, said
        self.violations: list[str] = []

    def check(self) -> list[str]:
        self._gpus_hold_what_they_have()
        self._one_process_a_lease()
        self._use_is_within_the_account()
        self._epochs_are_given_once()
        self._what_was_granted_is_known()
        self._keys_name_one_lease()
        self._renewed_in_time_is_kept()
        self._released_is_over()
        self._nothing_is_left()
        return self.violations

    def _wrong(self, text: str) -> None:
        self.violations.append(text)

    def _gpus_hold_what_they_have(self) -> None:
        """At no moment do workers use more of a GPU than there is."""
        moments: dict[str, list[tuple[float, int, int, Use]]] = defaultdict(list)
        for use in self.used:
            for gpu, mib in use.parts:
                moments[gpu] += [(use.start, 1, mib, use), (use.last, 0, -mib, use)]
        for gpu, changes in moments.items():
            total = 0
            for at, _, mib, use in sorted(changes, key=lambda change: change[:3]):
                total += mib
                if total > self.gpus[gpu].total_mib:
                    self._wrong(f"GPU {gpu} had {total} MiB in use at {at:.3f}, when {use} began")

    def _one_process_a_lease(self) -> None:
        by_lease: dict[str, list[Use]] = defaultdict(list)
        for use in self.used:
            if use.lease:
                by_lease[use.lease].append(use)
        for own in by_lease.values():
            own.sort(key=lambda use: use.start)
            for first, second in pairwise(own):
                if second.start < first.last:
                    self._wrong(f"two processes served one lease: {first} and {second}")

    def _use_is_within_the_account(self) -> None:
        """No use before the grant, and none after the slice was free: the next owner may have it then."""
        accounts = {(part.lease_id, part.gpu_uuid): part for part in self.slices}
        for use in self.used:
            for gpu, mib in use.parts:
                account = accounts.get((use.lease, gpu))
                if not use.lease:
                    continue
                if account is None:
                    self._wrong(f"{use} used {gpu}, of which its lease had nothing")
                    continue
                if mib != account.mib or use.epoch != self.leases[use.lease].epoch:
                    self._wrong(f"{use} used otherwise than it was granted: {account}")
                if use.start < account.started_at / 1000 - ROUNDING_S:
                    self._wrong(f"{use} used {gpu} before it was granted")
                if account.ended_at is not None and use.last > account.ended_at / 1000 + ROUNDING_S:
                    late = use.last - account.ended_at / 1000
                    self._wrong(f"{use} used {gpu} for {late:.3f} s after it was free")

    def _epochs_are_given_once(self) -> None:
        given: dict[tuple[str, int], str] = {}
        for lease in self.leases.values():
            if lease.agent_name is not None:
                other = given.setdefault((lease.agent_name, lease.epoch), lease.id)
                if other != lease.id:
                    self._wrong(f"{lease.id} and {other} have epoch {lease.epoch} of {lease.agent_name}")

    def _what_was_granted_is_known(self) -> None:
        """What a client was told is in the ledger: no acknowledged decision was lost."""
        for line in self.said:
            if line["outcome"] == "ok" and line["lease"] not in self.leases:
                self._wrong(f"{line} was answered, and the ledger does not know it")
            elif line.get("epoch") and line["epoch"] != self.leases[line["lease"]].epoch:
                self._wrong(f"{line} was told an epoch that is not the lease's")

    def _keys_name_one_lease(self) -> None:
        """A request that was repeated got the same lease, as long as that lived."""
        first: dict[str, str] = {}
        for line in self.said:
            if line["what"] == "reserve" and line["outcome"] == "ok":
                known = first.setdefault(line["key"], line["lease"])
                old = self.leases.get(known)
                if known != line["lease"] and (old is None or not _over_by(old, self.events, line["end"])):
                    self._wrong(f"the key {line['key']} named {known} and then {line['lease']}")

    def _renewed_in_time_is_kept(self) -> None:
        """Nobody loses a lease for want of a renewal before what was promised is over."""
        good_until: dict[str, float] = {}
        for line in self.said:
            if line["outcome"] == "ok" and line.get("expires_in"):
                until = line["start"] + line["expires_in"]
                good_until[line["lease"]] = max(until, good_until.get(line["lease"], 0.0))
        for event in self.events:
            lease = self.leases.get(event.subject)
            if event.kind == "expired" and lease is not None and event.detail.get("reason") == NOT_RENEWED:
                left = good_until.get(lease.id, 0.0) - event.at / 1000
                if left > ROUNDING_S:
                    self._wrong(f"{lease.id} expired {left:.3f} s before what its owner had been told")

    def _released_is_over(self) -> None:
        for line in self.said:
            lease = self.leases.get(line.get("lease", ""))
            released = line["what"] == "release" and line["outcome"] == "ok"
            if released and lease is not None and lease.state not in FINAL:
                self._wrong(f"{lease.id} was released, and is {lease.state}")

    def _nothing_is_left(self) -> None:
        """After everybody has gone, all is free."""
        for lease in self.leases.values():
            if lease.state in HOLDING:
                self._wrong(f"{lease.id} of {lease.agent_name} is still {lease.state}: leaked")
        for part in self.slices:
            if part.ended_at is None:
                self._wrong(f"the account of {part.lease_id} on {part.gpu_uuid} was never closed")
        for gpu in self.gpus.values():
            if gpu.used_mib or gpu.used_thousandths:
                self._wrong(f"GPU {gpu.uuid} still counts {gpu.used_mib} MiB")


def _over_by(lease: Lease, events: Iterable[Event], at: float) -> bool:
    """Whether the lease no longer lived at that time."""
    return any(
        event.subject == lease.id
        and event.kind not in ("queued", "reserved", "active")
        and event.at / 1000 <= at + ROUNDING_S
        for event in events
    )
