"""A slice of a remote GPU for every Jupyter kernel.

Here live the units, the pool client, the kernel provisioner, the ``%gpu`` magics, the ``jupyter gpu``
command and, in ``pool``, the controller. ``remoting``, ``spawner``, ``hub_config`` and ``kernelspecs`` are
links to the folders beside this one (docs/design/packages.md).
"""

__version__ = "0.1.0"
