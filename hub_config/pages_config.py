"""The lab pages of the lab: `python -m gpu_kernels.hub_config.pages --config hub_config/pages_config.py`."""

from gpu_kernels.hub_config.lab.settings import Settings

c = get_config()  # type: ignore[name-defined]  # noqa: F821
lab = Settings.of_this_process()

c.LabPages.controller = lab.controller_url
c.LabPages.cookie_secret_file = str(lab.secrets / "pages-cookie")
