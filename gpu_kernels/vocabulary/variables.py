"""The environment variables of this project's processes: what each holds, and who reads it.

The one list of them: docs/reference/configuration.md is made from it, and a test compares it with the
sources. Texts are Markdown, with links as from that page.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """``names`` belong together. ``read_by``: the processes that look at them."""

    names: tuple[str, ...]
    holds: str
    read_by: str


@dataclass(frozen=True, slots=True)
class Group:
    """Variables that the same hand sets; ``text`` says whose."""

    title: str
    text: str
    variables: tuple[Variable, ...]


TO_SET = Group(
    "Variables to set",
    "People and administrators set these. On a hub, the spawner sets the first two for each server.",
    (
        Variable(
            ("GPU_KERNELS_CONTROLLER",),
            "the controller's URL, or the URLs of several with commas between",
            "everything that asks the pool: Jupyter servers, kernels, `jupyter gpu`, agents",
        ),
        Variable(
            ("GPU_KERNELS_TOKEN",),
            "the token for it, away from a hub. Under a hub, `JUPYTERHUB_API_TOKEN` is used where this one "
            "is not set",
            "the same",
        ),
        Variable(
            ("GPU_KERNELS_COURSE",),
            "the course that GPUs are charged to, where no option or setting says another",
            "Jupyter servers, kernels, `jupyter gpu run` and `grade`",
        ),
        Variable(
            ("GPU_KERNELS_LOG",),
            "where the client libraries log: `stderr` or a path. Not set: only errors that a user must see",
            "programs under the runtime",
        ),
        Variable(
            ("GPU_KERNELS_MACHINE_MEMORY_MIB",),
            "how much of this machine's memory software GPUs and workers may count on, in MiB. Not set: what "
            "the machine or its cgroup has, less what other agents offer of it",
            "agents (`machine_memory_mib`), `jupyter gpu lab` and `jupyter gpu run --software`",
        ),
        Variable(
            ("GPU_KERNELS_NATIVE",),
            "another folder than `remoting/lib` for the native build",
            "whatever starts programs or workers",
        ),
        Variable(
            ("GPU_KERNELS_SOFTGPU_CHECK",),
            "what a software GPU looks for: `races`, `init`, `divergence`, `all`, with commas between "
            "([find races](../how-to/find-races.md))",
            "programs on a software GPU",
        ),
        Variable(
            ("GPU_KERNELS_SOFTGPU_ISA",),
            "a lower instruction set than the machine's best, to try it: `x86-64-v2` or `x86-64-v3`",
            "software GPUs",
        ),
        Variable(
            ("GPU_KERNELS_PYTORCH",),
            "`0`: PyTorch stays as it is on a software GPU ([PyTorch](../design/pytorch.md))",
            "programs that import PyTorch",
        ),
        Variable(
            ("GPU_KERNELS_MAP",),
            "`0`: a forwarded slice's memory is copied on one host too, that of PyTorch's operators, pinned "
            "and managed memory ([shared memory](../design/shared-memory.md))",
            "programs under the runtime",
        ),
        Variable(
            ("CXX", "XDG_CACHE_HOME"),
            "the C++ compiler that makes PyTorch's operators once for a release of PyTorch, and where they "
            "are kept (default: `~/.cache`)",
            "programs that import PyTorch",
        ),
        Variable(
            ("XDG_STATE_HOME",),
            "where an agent keeps its state unless `c.AgentApp.state_dir` says another place (default: "
            "`~/.local/state`)",
            "agents",
        ),
        Variable(
            ("GPU_KERNELS_LAB_SETTINGS",),
            "path of the `lab.json` that the lab's configuration files read; without it, the hub's is of the "
            "folder `state` and of ports from 8000",
            "hub, controller, pages and agent of a lab",
        ),
    ),
)

OF_A_SERVICE = Group(
    "Variables that JupyterHub and Jupyter set",
    "The hub gives these to its services and servers, a Jupyter server to its kernels. No one else sets "
    "them.",
    (
        Variable(
            ("JUPYTERHUB_SERVICE_NAME", "JUPYTERHUB_SERVICE_URL", "JUPYTERHUB_SERVICE_PREFIX"),
            "that this is a service of a hub, where it listens, and its URL prefix. They go before "
            "`address`, `port` and `prefix`",
            "controller, lab pages",
        ),
        Variable(
            ("JUPYTERHUB_API_URL", "JUPYTERHUB_API_TOKEN"),
            "the hub's API, which says whose a token is; the token of the service or the server",
            "controller, lab pages; in a server, whatever asks the pool",
        ),
        Variable(
            ("JUPYTERHUB_SSL_KEYFILE", "JUPYTERHUB_SSL_CERTFILE", "JUPYTERHUB_SSL_CLIENT_CA"),
            "files of a hub with internal TLS",
            "controller",
        ),
        Variable(
            ("JUPYTERHUB_SERVER_NAME",),
            "the server's name, empty for the default one: a part of a lease's slot",
            "Jupyter servers, `jupyter gpu run`",
        ),
        Variable(
            ("JPY_SESSION_NAME",),
            "the notebook's path, as the Jupyter server tells it to a kernel: the other part of the slot",
            "the provisioner",
        ),
    ),
)

OF_A_PROCESS = Group(
    "Variables of a process under the runtime",
    "`gpu_kernels.remoting.environment`, the provisioner and the spawner make these, and nothing else does. "
    "Do not set them: to change what a kernel gets, change its kernel spec.",
    (
        Variable(("GPU_KERNELS_AGENT",), "address of the data port", "the client libraries"),
        Variable(
            ("GPU_KERNELS_LEASE", "GPU_KERNELS_EPOCH", "GPU_KERNELS_SECRET"),
            "what the Hello carries ([design](../design.md#data-plane-opening-a-connection)); the secret in "
            "hex",
            "the client libraries, `%gpu`",
        ),
        Variable(
            ("GPU_KERNELS_SIZE", "GPU_KERNELS_DEVICE"),
            "the slice's size; `software` or `nvidia`. For people; `GPU_KERNELS_COURSE` is set too",
            "`%gpu`, `nvidia-smi`",
        ),
        Variable(
            ("GPU_KERNELS_ATTACH",),
            "where a kernel's processes ask for its slice, and change it: `unix:///PATH` "
            "([lab](../design/lab.md)). What is told there goes before the variables above",
            "the client libraries, `%gpu`",
        ),
        Variable(
            ("GPU_KERNELS_START",),
            "set by the spawner for a server: how its kernels start, `lazy` or `patient`",
            "the provisioner",
        ),
        Variable(
            ("GPU_KERNELS_REFUSAL",),
            "set by the provisioner instead of these, for a kernel that restarted without a GPU: why",
            "`%gpu`, `nvidia-smi`",
        ),
        Variable(
            ("GPU_KERNELS_PYTHON", "PATH"),
            "the Python that has this package; `remoting/commands` first, with an `nvidia-smi` of the slice",
            "that `nvidia-smi`; shells",
        ),
        Variable(
            ("PYTHONPATH", "GPU_KERNELS_LIBRARIES", "GPU_KERNELS_CUDA_ROOT"),
            "`remoting/startup` first, for frameworks; where [libraries](../design/libraries.md) of our own "
            "are for them; on a software GPU, where their assembler is "
            "([frameworks](../design/frameworks.md))",
            "Python, at its start and when it imports a framework",
        ),
        Variable(
            ("GPU_KERNELS_SET",),
            "what a framework was given at its import, to be taken back, and whether a release that was not "
            "tried was told of",
            "the same",
        ),
        Variable(
            ("LD_LIBRARY_PATH",),
            "`remoting/lib/client` first (or `remoting/lib/softgpu` straight on the software GPU), then "
            "`remoting/lib/libraries`, for programs that are linked with a maths library",
            "the system's loader",
        ),
        Variable(
            ("LD_PRELOAD",),
            "our CUDA runtimes, so that no other of the same SONAME is loaded; on a software GPU, the "
            "stand-ins for NVRTC and nvJitLink too, which give PTX for machine code",
            "the system's loader",
        ),
        Variable(
            ("GPU_KERNELS_PACKAGES",),
            "on a software GPU, the folders of the packages of the Python that runs, set by it: where "
            "NVIDIA's own NVRTC and nvJitLink may be",
            "those stand-ins",
        ),
        Variable(
            ("CUDA_HOME", "GPU_KERNELS_CUDA_HOME"),
            "on a software GPU, and where nothing was set, the toolkit of the `nvcc` on `PATH`, because "
            "ours goes before it there (`remoting/lib/softgpu/commands`)",
            "programs that build CUDA programs",
        ),
        Variable(
            ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"),
            "on a software GPU, our stand-in for ptxas, where Triton looks for NVIDIA's",
            "Triton",
        ),
        Variable(
            (
                "GPU_KERNELS_SOFTGPU_MEMORY_MIB",
                "GPU_KERNELS_SOFTGPU_UUID",
                "GPU_KERNELS_SOFTGPU_NAME",
                "GPU_KERNELS_SOFTGPU_THREADS",
                "GPU_KERNELS_SOFTGPU_LOG",
            ),
            "the software GPUs' memory in MiB and UUIDs (an entry for each), their name, the cores that they "
            "use, and where they log: `stderr` or a path",
            "software GPUs",
        ),
        Variable(
            ("GPU_KERNELS_LAB",),
            "marks every process of a lab, by its state folder, so that what is left over is found",
            "`jupyter gpu lab`",
        ),
    ),
)

GROUPS = (TO_SET, OF_A_SERVICE, OF_A_PROCESS)
