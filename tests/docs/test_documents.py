"""Documents that are wrong fail here: links that lead nowhere, commands that do not exist."""

from __future__ import annotations

import re
import shlex

import pytest

from gpu_kernels.cli import COMMANDS, SERVICES, parser
from tests.docs.documents import DOCUMENTS, ROOT, commands, links

pytestmark = pytest.mark.quick

EVERY_COMMAND = [
    pytest.param(command, id=f"{document.name}: {command[:60]}")
    for document in DOCUMENTS
    for command in commands(document)
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document):
    broken = [target for target in links(document) if not (document.parent / target).exists()]
    assert broken == []


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_every_command_can_be_read_by_its_parser(command):
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        assert f"\n{words[1]}: " in (ROOT / "Makefile").read_text()
        return
    arguments = words[2:]
    if arguments[0] in SERVICES:
        return  # they are run by test_guides
    end = arguments.index("--") if "--" in arguments else len(arguments)
    assert arguments[0] in COMMANDS
    parser().parse_args(arguments[:end])


def test_every_subcommand_is_documented():
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    missing = [name for name in (*COMMANDS, *SERVICES) if not re.search(rf"jupyter gpu {name}\b", text)]
    assert missing == []
