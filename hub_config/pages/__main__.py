"""``python -m gpu_kernels.hub_config.pages``"""

from gpu_kernels.extras import needed

with needed("hub", "python -m gpu_kernels.hub_config.pages"):
    from gpu_kernels.hub_config.pages.app import LabPages

LabPages.launch_instance()
