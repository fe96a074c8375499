"""The pool controller of the lab: `python -m gpu_kernels.pool --config hub_config/controller_config.py`."""

from hub_config.lab import accounts
from hub_config.lab.settings import Settings

c = get_config()  # type: ignore[name-defined]  # noqa: F821
lab = Settings.of_this_process()

c.PoolController.state_dir = str(lab.state / "pool")
c.PoolController.lease_ttl = lab.lease_ttl
c.PoolController.agent_ttl = lab.lease_ttl
c.PoolController.courses = {
    course: {lab.gpu_class: {"thousandths": lab.course_thousandths}} for course in accounts.COURSES
}
c.PoolController.sizes = {lab.gpu_class: ["0.02", "0.1", "1"]}
