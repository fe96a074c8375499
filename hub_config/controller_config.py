"""The pool controller of the lab: `python -m gpu_kernels.pool --config hub_config/controller_config.py`."""

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.settings import Settings
from gpu_kernels.vocabulary.roles import grading_account

c = get_config()  # type: ignore[name-defined]  # noqa: F821
lab = Settings.of_this_process()

c.PoolController.state_dir = str(lab.state / "pool")
c.PoolController.lease_ttl = lab.lease_ttl
c.PoolController.agent_ttl = lab.lease_ttl
# The one GPU server is on this machine, as all kernels are.
c.PoolController.agent_networks = [f"{lab.address}/32", f"unix://{lab.state / 'agent'}"]
c.PoolController.courses = {
    course: {lab.gpu_class: {"thousandths": lab.course_thousandths}} for course in accounts.COURSES
} | {
    # Where grading runs are charged; elsewhere, the property gpu_grading of the course's group makes it.
    grading_account(accounts.COURSE): {lab.gpu_class: {"thousandths": lab.course_thousandths // 2}}
}
c.PoolController.sizes = {lab.gpu_class: ["0.02", "0.1", "1"]}
