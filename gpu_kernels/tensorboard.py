"""TensorBoard beside a training run, behind the user's own Jupyter server.

``entry`` is for the configuration of Jupyter servers, with jupyter-server-proxy::

    c.ServerProxy.servers = {"tensorboard": entry("/opt/pytorch/bin/python")}

The server then starts TensorBoard at the first click, and asks for its own login before it passes anything
on. TensorBoard knows no login, and a port on loopback is open to everybody on the machine: it listens on a
socket in a folder that only its user may open, and its data server, which would take a port, stays away.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

STARTS_WITHIN_S = 120.0
LOOKS_EACH_S = 2.0
ICON = Path(__file__).parent / "server" / "tensorboard.svg"


def entry(python: str = sys.executable, folder: str = "~") -> dict[str, Any]:
    """A process for ``c.ServerProxy.servers``: a card in the launcher.

    ``python`` has TensorBoard and this package, as the environment of a kernel has. It shows what lies below
    ``folder``, by default the user's home.
    """
    below = os.path.expanduser(folder)
    command = [python, "-m", "gpu_kernels.tensorboard", below, "{unix_socket}", "{base_url}tensorboard"]
    return {
        "command": command,
        "unix_socket": True,
        "absolute_url": True,
        "timeout": STARTS_WITHIN_S,
        "new_browser_tab": True,
        "update_last_activity": False,  # its page asks by itself, and must not keep an idle server alive
        "launcher_entry": {"title": "TensorBoard", "icon_path": str(ICON), "category": "Other"},
    }


def serve(folder: str, socket: str, prefix: str) -> None:
    """Show what lies below ``folder``, at the URL path ``prefix``, until the process that started this one
    has ended.
    """
    parent = os.getppid()  # before the imports, which take seconds: it may end meanwhile
    from tensorboard import default, program

    class OnSocket(program.WerkzeugServer):  # type: ignore[misc]
        """TensorBoard's own server, which writes a port into its address."""

        def get_url(self) -> str:
            return f"unix://{socket}{prefix}/"

    board = program.TensorBoard(default.get_plugins(), server_class=OnSocket)
    host = [f"--host=unix://{socket}", "--port=0", f"--path_prefix={prefix}"]
    board.configure(["tensorboard", f"--logdir={folder}", "--load_fast=false", *host])
    board.launch()  # main() would tell everybody on the machine, in a file among the temporary ones
    while os.getppid() == parent:
        time.sleep(LOOKS_EACH_S)


if __name__ == "__main__":
    serve(*sys.argv[1:])
