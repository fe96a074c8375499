"""A siege: a controller, an agent and real workers serve students who compute, beside one attacker who does
all that a student's token allows him. ``python -m benchmarks.siege`` prints what became of the students'
leases, and what the attacks took.

Everything is on loopback and bounded: in connections, in opens a second, in bytes, in time. Students and
attacker come from one address, as they do where one machine runs all kernels: that is the harder case.
"""
