"""Exit statuses of ``jupyter gpu``: those of sysexits.h and of shells."""

from __future__ import annotations

import enum

from gpu_kernels import errors


class Exit(enum.IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2  # as argparse has it
    UNAVAILABLE = 69  # no pool, or none that could ever grant this
    TEMPORARY = 75  # the same call may succeed later
    NO_PERMISSION = 77
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    INTERRUPTED = 130
    BROKEN_PIPE = 141


_BY_ERROR: tuple[tuple[type[errors.GPUKernelsError], Exit], ...] = (
    (errors.Unauthenticated, Exit.NO_PERMISSION),
    (errors.Forbidden, Exit.NO_PERMISSION),
    (errors.InvalidRequest, Exit.USAGE),
    (errors.UnknownCourse, Exit.USAGE),
    (errors.UnknownAccount, Exit.USAGE),
    (errors.Conflict, Exit.FAILED),
    (errors.SizeLimit, Exit.UNAVAILABLE),
    (errors.NoSuchClass, Exit.UNAVAILABLE),
    (errors.SliceTooLarge, Exit.UNAVAILABLE),
    (errors.Refused, Exit.TEMPORARY),
    (errors.LedgerUnavailable, Exit.TEMPORARY),
    (errors.AuthenticationUnavailable, Exit.TEMPORARY),
)


def exit_status(error: errors.GPUKernelsError) -> Exit:
    """The status for an error; what is not known to be temporary or a lack of rights is 'unavailable'."""
    return next((status for kind, status in _BY_ERROR if isinstance(error, kind)), Exit.UNAVAILABLE)
