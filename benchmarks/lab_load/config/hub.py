"""The lab's hub, for the students of the plan, with its processes watched."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))

from benchmarks.lab_load.loop_watch import FILE_VARIABLE, watch  # noqa: E402
from benchmarks.lab_load.plan import Plan, folder_of_loops  # noqa: E402
from gpu_kernels.hub_config.lab import accounts, services  # noqa: E402
from gpu_kernels.hub_config.lab.settings import Settings  # noqa: E402

c = get_config()  # type: ignore[name-defined]  # noqa: F821
load_subconfig(str(services.HUB_CONFIGURATION))  # type: ignore[name-defined]  # noqa: F821

lab = Settings.of_this_process()
plan = Plan.of_this_lab(lab)
loops = folder_of_loops(lab)
watch("hub", loops / "hub.jsonl")

c.DemoAuthenticator.passwords |= {login.name: login.password for login in plan.logins()}
c.JupyterHub.load_groups[accounts.COURSE]["users"] += [login.name for login in plan.logins()]

for service in c.JupyterHub.services:
    for name, path in (("gpu", "controller.py"), (services.PAGES_SERVICE, "pages.py")):
        if service["name"] == name:
            service["command"] = [*service["command"][:-1], str(HERE / path)]

c.Spawner.environment = {
    **c.Spawner.environment,
    "JUPYTER_CONFIG_PATH": f"{HERE / 'server'}:{services.CONFIGURATION / 'server'}",
    "PYTHONFAULTHANDLER": "1",  # a kernel that does not answer tells its stacks when it is aborted
    FILE_VARIABLE: lambda spawner: (
        str(loops / f"server-{spawner.user.name}.jsonl") if spawner.user.name in plan.watched() else ""
    ),
}
