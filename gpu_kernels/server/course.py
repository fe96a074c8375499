"""What this server's course offers, and how far its and the user's budgets are spent."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from gpu_kernels import offer
from gpu_kernels.magics.usage import budgets_of
from gpu_kernels.provisioner.leasing import client_of_this_process


def now() -> dict[str, Any]:
    """Asks the controller. Raises what it refuses."""
    client = client_of_this_process()
    named = os.environ.get(offer.COURSE_VARIABLE) or None
    known = offer.ask(client, named)
    return {
        "course": known.course,
        "sizes": list(known.to_choose()),
        "budgets": [
            {**asdict(budget), "part": budget.part, "text": budget.text}
            for budget in budgets_of(client, named)
        ],
    }
