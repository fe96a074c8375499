"""``python -m hub_config.pages``"""

from hub_config.pages.app import LabPages

LabPages.launch_instance()
