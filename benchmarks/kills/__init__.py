"""The pool as real processes that are killed and stopped at random moments under load, and a check of who
used what. ``python -m benchmarks.kills --kills 200 --store sqlite`` runs it.
"""
