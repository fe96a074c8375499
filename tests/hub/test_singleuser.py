"""What a single-user server does not do at its start, so that a class does not wait for it."""

import subprocess
import sys

import pytest

PREPARED = """
import sys
from gpu_kernels.hub_config import singleuser
singleuser.put_off("rfc3987_syntax", "is_valid_syntax")
singleuser.ask_no_yarn()
"""


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", PREPARED + code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_parsers_of_a_format_that_nobody_uses_are_not_made():
    assert run("import jupyterhub.singleuser, jupyterlab.labapp; print('lark' in sys.modules)") == "False"


def test_a_schema_that_has_the_format_is_checked_as_ever():
    checks = "import jsonschema; c = jsonschema.Draft7Validator.FORMAT_CHECKER; "
    values = "print(c.conforms('http://example.org/\u00f6', 'iri'), c.conforms('no iri', 'iri'))"
    assert run(checks + values) == "True False"


def test_a_module_that_is_loaded_already_stays():
    assert run("import json; singleuser.put_off('json', 'dumps'); import json; print(json.loads('1'))") == "1"


def test_yarn_is_not_asked_where_packages_come_from():
    code = """
import subprocess
def run_nothing(*arguments, **named):
    raise AssertionError(arguments)
subprocess.check_output = run_nothing
from jupyterlab.commands import AppOptions, YARN_DEFAULT_REGISTRY
print(AppOptions().registry == YARN_DEFAULT_REGISTRY)
"""
    assert run(code) == "True"


def test_jupyterlab_still_asks_by_the_name_that_is_replaced():
    """When this fails, `ask_no_yarn` has become useless, or must replace another function."""
    commands = pytest.importorskip("jupyterlab.commands")
    assert callable(commands._yarn_config)
