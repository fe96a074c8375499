"""What is left of ``jupyter gpu run`` while its command runs: two small processes (docs/design/programs.md).
Nothing of the rest of the package is imported here but ``gpu_kernels.renewals``, nor what is large of the
standard library.
"""

PROGRAM = __file__.rpartition("/")[0] + "/__main__.py"
"""What ``jupyter gpu run`` becomes."""
