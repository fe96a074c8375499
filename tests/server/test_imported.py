"""What a student's processes import of the project: nothing of the controller."""

from __future__ import annotations

import json
import sys

from tests.provisioner.pool import wait_until
from tests.server.conftest import Server

WRITE = "import sys; open({!r}, 'w').write(' '.join(sys.modules))"


def of_ours(path) -> set[str]:
    return {name for name in path.read_text().split() if name.startswith("gpu_kernels")}


def kernel_that_says_what_it_imported(server: Server, path) -> None:
    """A kernel spec \"real\" of IPython, which loads and uses ``%gpu``."""
    folder = server.folder / "data" / "kernels" / "real"
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--ext=gpu_kernels.magics"]
    lines = ("%gpu", WRITE.format(str(path)))
    spec = {
        "argv": [*argv, *(f"--IPKernelApp.exec_lines={line}" for line in lines)],
        "display_name": "Real",
        "language": "python",
        "metadata": {
            "kernel_provisioner": {
                "provisioner_name": "gpu-slice",
                "config": {"size": "0.02 V100", "start": "lazy", "first_wait_s": 0, "watch_s": 0},
            }
        },
    }
    (folder / "kernel.json").write_text(json.dumps(spec))


def test_a_students_server_and_kernel_import_nothing_of_the_controller(pool, tmp_path):
    of_server, of_kernel = tmp_path / "of-server", tmp_path / "of-kernel"
    at_its_end = f"import atexit\natexit.register(lambda: exec({WRITE.format(str(of_server))!r}))"
    server = Server(tmp_path, pool, at_its_end)
    try:
        kernel_that_says_what_it_imported(server, of_kernel)
        server.start_kernel("real")
        assert server.http.get("/gpu-lab/api/course").is_success
        wait_until(of_kernel.exists, 60)
        wait_until(lambda: "sys" in of_kernel.read_text().split(), 60)
        server.end_kernels()
    finally:
        server.close()
        pool.empty()
    looked_at = {"gpu_kernels.provisioner", "gpu_kernels.server.extension", "gpu_kernels.offer"}
    assert looked_at <= of_ours(of_server)
    assert {"gpu_kernels.magics", "gpu_kernels.magics.report"} <= of_ours(of_kernel)
    for found in (of_ours(of_server), of_ours(of_kernel)):
        assert {name for name in found if f"{name}.".startswith("gpu_kernels.pool.")} == set()
    for path in (of_server, of_kernel):
        assert {"alembic", "sqlalchemy", "pydantic", "prometheus_client"} & {*path.read_text().split()} <= (
            # Jupyter's own server counts itself.
            {"prometheus_client"} if path == of_server else set()
        )
