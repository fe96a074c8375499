"""The environment of a kernel: its slice, or where to ask for one, or why it has none (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpu_kernels import units
from gpu_kernels.errors import InvalidSize
from gpu_kernels.provisioner.attachment import View
from gpu_kernels.provisioner.leasing import names_of_tokens
from gpu_kernels.remoting.environment import SOFTWARE, attachable_environment, client_environment, without_gpu
from gpu_kernels.resources.pool import Pool

REFUSAL_VARIABLE = "GPU_KERNELS_REFUSAL"
MAX_REFUSAL = 2000


def made(
    view: View, attach_point: str | None, will_be_software: Callable[[], bool], base: Mapping[str, str]
) -> dict[str, str]:
    """``attach_point`` is None where there can be none; ``will_be_software`` is asked where there is no slice
    yet.
    """
    lease = view.lease if view.state == "attached" else None
    if attach_point is not None:
        software = lease is None and will_be_software()
        env = attachable_environment(attach_point, lease, base, software=software)
    elif lease is not None:
        env = client_environment(lease, base)
    else:
        env = without_gpu(base)
    env.pop(REFUSAL_VARIABLE, None)
    if lease is None and (view.state == "refused" or attach_point is None):
        env[REFUSAL_VARIABLE] = view.text[:MAX_REFUSAL]
    return env


def without_token(env: Mapping[str, str]) -> dict[str, str]:
    """Without what says to the hub or the pool who somebody is."""
    tokens = names_of_tokens(env)
    return {
        name: value
        for name, value in env.items()
        if not name.startswith("JUPYTERHUB_") and name not in tokens
    }


def all_software(pool: Pool, size: str) -> bool:
    """Whether each of the pool's GPUs that ``size`` may be a slice of is a software GPU."""
    try:
        gpu_class = units.parse_size(size).gpu_class
    except InvalidSize:
        return False
    devices = {gpu.device for gpu in pool.gpus if gpu_class in (None, gpu.gpu_class)}
    return devices == {SOFTWARE}
