"""The path of `make demo`, as a test."""

import pytest

from gpu_kernels.hub_config.lab.student_path import StudentPath, read_sections

pytestmark = [pytest.mark.hub, pytest.mark.native]


@pytest.mark.timeout(600)
def test_a_student_gets_a_slice_uses_it_and_gives_it_back(lab):
    path = StudentPath(lab)
    try:
        seen = {step.title: step.seen for step in path.walk()}
    finally:
        path.close()
    assert seen["look at the ledger"] == "1 active lease: 20 thousandths and 655 MiB, charged to ml101"
    assert seen["shut the kernel down"] == "the ledger reads zero used, no worker lives"


def test_a_notebook_is_read_by_its_headings():
    code = {"cell_type": "code", "metadata": {}, "source": "1"}
    breaking = {"cell_type": "code", "metadata": {"tags": ["raises-exception"]}, "source": "1/0"}
    prose = [
        {"cell_type": "markdown", "metadata": {}, "source": text} for text in ("# A", "words", "## B\nmore")
    ]
    sections = read_sections({"cells": [prose[0], code, prose[1], code, prose[2], code, breaking]})
    assert [(part.heading, part.cells, part.breaks) for part in sections[1:]] == [
        ("A", ("1", "1"), False),
        ("B", ("1", "1/0"), True),
    ]
