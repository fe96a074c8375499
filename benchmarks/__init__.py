"""Benchmarks: ``python -m benchmarks.NAME [--json -]``. Figures are ratios within one run."""
