"""Who goes first where processors are short: servers and kernels yield to hub, proxy and controller.

``nice`` alone does not do it. Where Linux has its *autogroups* on, as it has by default, processors are
shared between sessions first, and every server and every kernel is a session of its own that gets as much as
the hub. A session has a niceness of its own for that, which it does not inherit.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

ATTEMPTS = 20
PAUSE_S = 0.1
"""The kernel takes ten such changes a second from all of a machine's users together."""


def yield_processors(niceness: int) -> None:
    """Let this process go after others, and its session if it leads one. Never raises."""
    with contextlib.suppress(OSError):
        os.nice(niceness)
    _let_session_yield(os.getpid(), niceness)


def yield_as_we_do(pid: int) -> None:
    """Let the session that ``pid`` leads go after others as this process's session does. Never raises.

    May take a moment; call it in a thread.
    """
    niceness = niceness_of_session()
    if niceness > 0:
        _let_session_yield(pid, niceness)


def niceness_of_session(process: int | str = "self") -> int:
    """0 also where there are no autogroups."""
    try:
        found = re.search(r"nice (-?\d+)", Path(f"/proc/{process}/autogroup").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def _let_session_yield(leader: int, niceness: int) -> None:
    for _ in range(ATTEMPTS):
        try:
            if os.getsid(leader) == leader:
                Path(f"/proc/{leader}/autogroup").write_text(str(niceness))
            return
        except BlockingIOError:
            time.sleep(PAUSE_S)
        except OSError:
            return  # there are no autogroups here, or the process has ended
