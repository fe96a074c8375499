"""`python -m gpu_kernels.hub_config.pages.catalogue`: the template of translations, from the pages' texts.

Needs Babel, which only those need who change texts or translate them.
"""

from __future__ import annotations

import io
from pathlib import Path

from gpu_kernels.hub_config.pages.texts import DOMAIN

HERE = Path(__file__).parent
TEMPLATE = HERE / "locale" / f"{DOMAIN}.pot"


def extract() -> str:
    """The catalogue's template as it should be; the same texts give the same file."""
    from babel.messages.catalog import Catalog
    from babel.messages.extract import extract_from_dir
    from babel.messages.frontend import parse_mapping_cfg
    from babel.messages.pofile import write_po

    with (HERE / "locale" / "babel.cfg").open() as file:
        methods, options = parse_mapping_cfg(file)  # type: ignore[no-untyped-call]
    catalogue = Catalog(project=DOMAIN, header_comment="# The texts of the lab pages.", fuzzy=False)
    for name, _line, message, comments, context in extract_from_dir(HERE, methods, options):
        catalogue.add(message, None, [(name, 0)], auto_comments=comments, context=context)
    made = io.BytesIO()
    write_po(made, catalogue, width=100, sort_output=True, omit_header=False, include_lineno=False)
    changing = ("POT-Creation-Date", "PO-Revision-Date", "Last-Translator", "Generated-By", "Report-Msgid")
    lines = made.getvalue().decode().splitlines()
    return (
        "\n".join(line for line in lines if not line.startswith(tuple(f'"{name}' for name in changing)))
        + "\n"
    )


if __name__ == "__main__":
    TEMPLATE.write_text(extract())
