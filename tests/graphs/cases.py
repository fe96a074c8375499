"""What the tests of graphs do with a driver. Each function returns what a program sees, and no handles."""

from tests.graphs.cases_capture import *  # noqa: F403
from tests.graphs.cases_functions import *  # noqa: F403
from tests.graphs.cases_nodes import *  # noqa: F403
from tests.graphs.cases_runs import *  # noqa: F403
