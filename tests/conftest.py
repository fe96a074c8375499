"""For the whole suite."""

from __future__ import annotations

import signal

# A shell that runs the suite in the background has it ignore Ctrl-C, and so would every process under test,
# since what is ignored is inherited. What the tests say of Ctrl-C holds for programs that do not ignore it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
