"""A slice of a remote GPU for every Jupyter kernel.

Here live the units, the pool client, the kernel provisioner, the ``%gpu`` magics, the ``jupyter gpu``
command and, in ``pool``, the controller. Nothing here imports ``spawner`` or ``hub_config``.
"""

__version__ = "0.1.0"
