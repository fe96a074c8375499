"""Benchmarks: ``python -m benchmarks.NAME [--json FILE]``; ``make bench`` runs them all.

Each module has ``measure(smallest)`` that returns figures and ends in ``main(measure, ...)`` from
``benchmarks.figures``; those with more options call ``emit``. ``--smallest`` is for the tests, which run each
benchmark so: its figures say nothing but that it works.
``--before CHECKOUT``, of those with ``main``, compares with another one in which ``make ready`` has run.
A figure is measured beside a peer or a physical limit in the same run, so that it means something on
another machine. Benchmarks print; they never fail a build. ``lab_load`` and ``kills`` are trials as well:
they exit with 1 where something went wrong, not where it was slow.
"""
