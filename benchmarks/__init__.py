"""Benchmarks: ``python -m benchmarks.NAME [--json FILE]``; ``make bench`` runs them all.

Each module has ``measure() -> list[Figure]`` and ends in ``main(measure, ...)`` from ``benchmarks.figures``.
A figure is measured beside a peer or a physical limit in the same run, so that it means something on
another machine. Benchmarks print; they never fail a build. ``lab_load`` and ``kills`` are trials as well:
they exit with 1 where something went wrong, not where it was slow.
"""
