"""The page about configuration names every setting and every variable that there is, and nothing else."""

from __future__ import annotations

import re

import pytest
from traitlets import Float, Int, List, Unicode, default
from traitlets.config import Configurable

from gpu_kernels.hub_config import reference
from gpu_kernels.vocabulary.variables import GROUPS
from tests.docs.documents import ROOT
from tests.repository.test_repository import tracked_files

pytestmark = pytest.mark.quick

CODE = ("gpu_kernels/", "hub_config/", "kernelspecs/", "remoting/", "spawner/")
READ_OR_SET = re.compile(r"""["'](GPU_KERNELS_[A-Z_]*[A-Z]|JUPYTERHUB_[A-Z_]*[A-Z]|JPY_SESSION_NAME)["']""")
IN_A_SCRIPT = re.compile(r"\$\{?(GPU_KERNELS_[A-Z_]*[A-Z])")
CONFIGURABLE = re.compile(r"config=True")
NOT_FOR_DEPLOYERS = {"gpu_kernels/cli/reference.py", "hub_config/reference.py"}
"""They read which settings there are."""
PUT_TOGETHER = {f"JUPYTERHUB_SSL_{name}" for name in ("KEYFILE", "CERTFILE", "CLIENT_CA")}
"""Of a prefix and these, in the code."""

SETTINGS = [
    pytest.param(kind, name, id=f"{kind.__name__}.{name}")
    for kind in map(reference.load, reference.CLASSES)
    for name in reference.settings_of(kind)
]


def test_the_page_says_what_the_code_takes() -> None:
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    assert reference.with_made_parts(page) == page, (
        "run: python -m gpu_kernels.hub_config.reference docs/reference/configuration.md"
    )


@pytest.mark.parametrize(("kind", "name"), SETTINGS)
def test_every_setting_says_what_it_is_for_and_what_it_is_by_default(kind: type, name: str) -> None:
    trait = reference.settings_of(kind)[name]
    assert re.fullmatch(r".*\w.*\.", trait.help.strip(), re.S), "a setting without help, or half a sentence"
    if reference.is_worked_out(kind, name):
        assert "default" in trait.help.casefold(), (
            "its default depends on something, and the help says not on what"
        )


def test_every_setting_in_the_sources_is_of_a_class_that_the_page_has() -> None:
    """A setting of a class that the page does not know would be missing, and nobody would see it."""
    marked = sum(
        len(CONFIGURABLE.findall(path.read_text()))
        for path in tracked_files()
        if (name := str(path.relative_to(ROOT))).startswith(CODE)
        and path.suffix == ".py"
        and name not in NOT_FOR_DEPLOYERS
    )
    assert marked == len(SETTINGS) > 80


def test_every_field_of_a_labs_settings_says_what_it_is_for() -> None:
    rows = [line for line in reference.lab_fields() if line.startswith("| `")]
    assert len(rows) > 10
    assert all(re.search(r"\| \w.*\. \|$", row) for row in rows), rows


def test_every_variable_of_the_sources_is_described_and_no_other() -> None:
    found = set(PUT_TOGETHER)
    for path in tracked_files():
        name = str(path.relative_to(ROOT))
        if not name.startswith(CODE) or name.endswith("vocabulary/variables.py"):
            continue
        if path.suffix in {".py", ".cc", ".h"}:
            found |= set(READ_OR_SET.findall(path.read_text()))
        elif not path.suffix and path.is_file():
            found |= set(IN_A_SCRIPT.findall(path.read_text(errors="replace")))
    described = {name for group in GROUPS for variable in group.variables for name in variable.names}
    ours = {name for name in described if name.startswith(("GPU_KERNELS_", "JUPYTERHUB_", "JPY_"))}
    assert found == ours


class Example(Configurable):
    """What settings of any class are shown as."""

    least = Int(3, min=1, help="At least one, or a <number>.").tag(config=True)
    share = Float(0.5, min=0.0, max=1.0, help="Either | or `<b>`.").tag(config=True)
    names = List(Unicode(), help="Names.").tag(config=True)
    folder = Unicode(help="By default the home.").tag(config=True)
    internal = Unicode()
    aliases = {"least": "Example.least"}  # noqa: RUF012 - traitlets' way

    @default("folder")
    def _default_folder(self) -> str:
        return "/"


def test_a_setting_is_shown_as_one_writes_it_with_its_type_bounds_default_and_option() -> None:
    assert list(reference.settings_table(Example))[2:] == [
        "| `c.Example.least`<br>`--least`<br>int from 1, `3` | At least one, or a &lt;number>. |",
        "| `c.Example.share`<br>float from 0 to 1, `0.5` | Either \\| or `<b>`. |",
        "| `c.Example.names`<br>list of str, `[]` | Names. |",
        "| `c.Example.folder`<br>str, default: see text | By default the home. |",
    ]
