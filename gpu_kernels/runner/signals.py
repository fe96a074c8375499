"""Python's signals without the enumerations of its module ``signal``, whose import takes a MiB: ``signal``
here is the half of it that is C.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

__all__ = ["signal"]
