"""Every text in the visitor's language: gettext, and the templates that say it."""

from __future__ import annotations

import gettext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

DOMAIN = "gpu-lab"
SOURCE_LANGUAGE = "en"
MOST_LANGUAGES = 10
"""Of a browser's list, so many are looked at."""


def noted(text: str) -> str:
    """Marks a text for the catalogue that is translated later, where it is said."""
    return text


@dataclass(frozen=True, slots=True)
class Language:
    """A language of the pages: its name as in ``lang=``, what translates, and the templates."""

    name: str
    catalogue: gettext.NullTranslations
    templates: Environment


class Texts:
    """The languages that there are translations for, in a folder as gettext has it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = {path.parent.parent.name for path in folder.glob(f"*/LC_MESSAGES/{DOMAIN}.mo")}

    def prepare(self) -> None:
        """Compile all templates of all languages, so that no visitor's first page holds up all others."""
        for name in (SOURCE_LANGUAGE, *self._known):
            templates = self._language(name).templates
            for template in templates.list_templates(extensions=["html"]):
                templates.get_template(template)

    def language(self, accepted: str) -> Language:
        """The first of an ``Accept-Language`` header that there is; English if none is."""
        for name in wanted(accepted):
            if name == SOURCE_LANGUAGE:
                break
            if name in self._known:
                return self._language(name)
        return self._language(SOURCE_LANGUAGE)

    @lru_cache(maxsize=64)  # noqa: B019 - there is one of these in a process
    def _language(self, name: str) -> Language:
        if name in self._known:
            catalogue: gettext.NullTranslations = gettext.translation(DOMAIN, self._folder, [name])
        else:
            catalogue = gettext.NullTranslations()
        return make_language(name, catalogue)


def make_language(name: str, catalogue: gettext.NullTranslations) -> Language:
    templates = Environment(
        loader=PackageLoader("gpu_kernels.hub_config.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", "jinja2.ext.do"],
    )
    install: Any = templates
    install.install_gettext_translations(catalogue, newstyle=True)
    return Language(name, catalogue, templates)


def wanted(accepted: str) -> list[str]:
    """The languages of an ``Accept-Language`` header by preference, each followed by its general form."""
    weighed: list[tuple[float, int, str]] = []
    for number, part in enumerate(accepted.split(",")[:MOST_LANGUAGES]):
        name, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality or 1)
        except ValueError:
            continue
        if name.replace("-", "").isalnum() and weight > 0:
            weighed.append((-weight, number, name.replace("-", "_")))
    names = [name for _, _, name in sorted(weighed)]
    return [form for name in names for form in dict.fromkeys((name, name.partition("_")[0]))]
