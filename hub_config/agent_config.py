"""The agent of the lab: `python -m gpu_kernels.remoting.agent --config hub_config/agent_config.py`."""

import os

from gpu_kernels.hub_config.lab import services
from gpu_kernels.hub_config.lab.settings import MARKER_VARIABLE, Settings
from gpu_kernels.remoting.agent.accounts import may_be_given
from gpu_kernels.remoting.paths import native_build

c = get_config()  # type: ignore[name-defined]  # noqa: F821
lab = Settings.of_this_process()

c.AgentApp.agent_name = services.AGENT
c.AgentApp.controller = lab.controller_url
c.AgentApp.token_file = str(services.agent_token_file(lab))
c.AgentApp.listen = [f"tcp://{lab.address}:{lab.agent_port}"]
c.AgentApp.state_dir = str(lab.state / "agent")
# A real GPU of this machine would be of a class that no course has.
c.AgentApp.device = "software"
c.AgentApp.software_class = lab.gpu_class
c.AgentApp.software_memory_mib = lab.gpu_memory_mib
c.AgentApp.software_count = lab.gpus
c.AgentApp.keep_environment = ["TZ", "TMPDIR", MARKER_VARIABLE]

# A demo in root's own folder, which no other account may read, leaves its workers root's; its agent says so.
native = native_build()
c.AgentApp.workers_as_root = os.geteuid() == 0 and not may_be_given([native.worker, native.softgpu_driver])

# The controller places nothing on a server that it has not heard of for a lease's life.
c.AgentApp.report_every = lab.lease_ttl / 6
