"""``python -I -S PATH/gpu_kernels/runner/__main__.py DESCRIPTOR -- COMMAND ...``: what ``jupyter gpu run``
becomes. The descriptor is of a file that says what to hold and to run; the command is there for people's
``ps``.
"""

import os
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])

from gpu_kernels.runner.processes import main  # found only now: nothing of site is there

os._exit(main(int(sys.argv[1])))
