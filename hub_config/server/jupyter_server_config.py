"""Jupyter servers of the lab: the kernels of gpu-kernels, and nothing that needs the internet."""

from gpu_kernels.hub_config.lab.settings import LAB_EXTENSION

c = get_config()  # type: ignore[name-defined]  # noqa: F821

# Frees what a kernel that died for good had reserved, and lets a server stop after a refused kernel.
c.ServerApp.kernel_manager_class = "gpu_kernels.kernels.GPUMappingKernelManager"

# Shows the kernels whose size the course offers.
c.ServerApp.kernel_spec_manager_class = "gpu_kernels.specs.GPUKernelSpecManager"

# Tells pages how the slices of their kernels stand; an installed wheel enables it by itself.
c.ServerApp.jpserver_extensions = {
    "gpu_kernels.server": True,
    "jupyter_server_proxy": False,  # for TensorBoard; each start of a server would wait a second for it
}

# "Python 3" is one of ours; the one that ipykernel brings along would stand beside it.
c.KernelSpecManager.ensure_native_kernel = False

# Language servers that npm has installed are found by asking npm, which takes each server half a second.
c.LanguageServerManager.node_roots = []

# A login shell would set PATH anew, and lose the `jupyter` of this environment.
c.ServerApp.terminado_settings = {"shell_command": ["/bin/bash"]}

# The status bar's item, where it was built (`make` does); an installed wheel brings it along.
c.LabApp.extra_labextensions_path = [str(LAB_EXTENSION)]

c.LabApp.extension_manager = "readonly"
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.news_url = None
