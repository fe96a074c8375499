"""The pool on virtual time: controllers, agents and clients under seeded faults, and a checker of who used
what. ``python -m benchmarks.simulate`` runs it; tests/pool/machine and tests/pool/simulation use its parts.
"""
