"""Grading runs: the notebooks of a course's students, each on a slice of its own, charged to the course's
grading account.

``submissions`` finds what is to be run, ``runner`` runs it in a process each, ``worker`` is that process:
``notebook`` (nbclient) or ``with_nbgrader`` do the work, and ``slices`` sees what became of its slices. The
words and invariants are in docs/design/lab.md.
"""
