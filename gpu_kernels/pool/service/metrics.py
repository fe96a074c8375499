"""What Prometheus reads: the ledger's sums at each scrape, and counts of what was asked and refused."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gpu_kernels.pool.ledger.queries.pool_views import Sums


class Metrics:
    """One service's metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.grants = Counter(
            "pool_grants", "Leases given slices on request", ["gpu_class", "course"], registry=self.registry
        )
        self.refusals = Counter(
            "pool_refusals", "Requests refused, by code", ["code"], registry=self.registry
        )
        self.registrations_refused = Counter(
            "pool_registrations_refused",
            "GPU servers whose registration was refused, by code",
            ["agent", "code"],
            registry=self.registry,
        )
        self.requests = Histogram(
            "pool_request_seconds",
            "Time to answer, without long polls",
            ["endpoint", "method", "status"],
            registry=self.registry,
            buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 15),
        )
        self.sweeps_failed = Counter(
            "pool_sweeps_failed", "Sweeps that could not write the ledger", registry=self.registry
        )
        self._active = Gauge(
            "pool_controller_active", "1 for the active controller, 0 on standby", registry=self.registry
        )
        lease_labels = ["state", "gpu_class", "course"]
        self._leases = Gauge("pool_leases", "Leases", lease_labels, registry=self.registry)
        self._held = Gauge(
            "pool_lease_thousandths", "Thousandths held by leases", lease_labels, registry=self.registry
        )
        gpu_labels = ["agent", "gpu", "gpu_class"]
        self._gpu_gauges = {
            "allocatable_mib": self._gpu_gauge("pool_gpu_allocatable_mib", "Memory for slices", gpu_labels),
            "used_mib": self._gpu_gauge("pool_gpu_used_mib", "Memory in slices", gpu_labels),
            "used_thousandths": self._gpu_gauge("pool_gpu_used_thousandths", "Share in slices", gpu_labels),
            "available": self._gpu_gauge("pool_gpu_available", "1 if its agent answers", gpu_labels),
        }
        self._mismatch = Gauge(
            "pool_ledger_mismatch",
            "GPUs that are counted otherwise than their leases say; must be 0",
            registry=self.registry,
        )

    def _gpu_gauge(self, name: str, help_text: str, labels: list[str]) -> Gauge:
        return Gauge(name, help_text, labels, registry=self.registry)

    def text(self, sums: Sums | None) -> bytes:
        """The whole page for these sums; None on standby, where nothing is known of the ledger."""
        self._active.set(sums is not None)
        self._mismatch.set(0 if sums is None else sums.mismatch)
        for gauge in (self._leases, self._held, *self._gpu_gauges.values()):
            gauge.clear()
        if sums is not None:
            self._fill(sums)
        return generate_latest(self.registry)

    def _fill(self, sums: Sums) -> None:
        for (state, gpu_class, course), (count, thousandths) in sums.by_state.items():
            self._leases.labels(state, gpu_class, course).set(count)
            self._held.labels(state, gpu_class, course).set(thousandths)
        for gpu in sums.gpus:
            for field, gauge in self._gpu_gauges.items():
                gauge.labels(gpu.agent, gpu.uuid, gpu.gpu_class).set(getattr(gpu, field))
