"""What this server's course offers, and how far its and the user's budgets are spent."""

from __future__ import annotations

import os

from gpu_kernels import offer
from gpu_kernels.magics.usage import budgets_of
from gpu_kernels.provisioner.leasing import client_of_this_process
from gpu_kernels.resources.lab import CourseOffer


def now() -> CourseOffer:
    """Asks the controller. Raises what it refuses."""
    client = client_of_this_process()
    named = os.environ.get(offer.COURSE_VARIABLE) or None
    known = offer.ask(client, named)
    return CourseOffer(known.course, known.to_choose(), tuple(budgets_of(client, named)))
