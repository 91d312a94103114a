"""A hook of mkdocs: pages of the site that are not files of docs/, and examples in docstrings as code."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from public import PACKAGES, public_names

ROOT = Path(__file__).resolve().parents[1]
# Files of the repository's root that are pages of the site.
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}


# A prompt and what follows it up to an empty line.
_DOCTEST = re.compile(r"^(>>> (?:.+\n?)+)", flags=re.MULTILINE)


class Doctests(griffe.Extension):
    """Show examples of docstrings as code, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put fences around examples."""
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(
                lambda found: f"```pycon\n{found[1].rstrip()}\n```\n", obj.docstring.value
            )


def api_pages() -> Iterator[tuple[str, str]]:
    """The path and the Markdown of each page of the reference."""
    for package, names in public_names().items():
        page = [f"# {PACKAGES[package]}", ""]
        for full in sorted(names, key=lambda name: names[name].rpartition(".")[2].lower()):
            page += [f"::: {full}", ""]
        yield f"api/{package.split('.')[-1]}.md", "\n".join(page)


@event_priority(100)  # before mkdocstrings reads its settings
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the reference's pages into the navigation, and read them from the installed copy.

    In a checkout connectors/ and eval/ are outside of the package.
    """
    handler = config.plugins["mkdocstrings"].config["handlers"]["python"]
    handler["paths"] = [sysconfig.get_path("purelib")]
    pages = [{PACKAGES[package]: f"api/{package.split('.')[-1]}.md"} for package in PACKAGES]
    assert config.nav is not None
    place = next(i for i, part in enumerate(config.nav) if "Results" in part)
    config.nav.insert(place, {"Python": [{"What is public": "api.md"}, *pages]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for path, content in api_pages():
        files.append(File.generated(config, path, content=content))
    for name, path in ROOT_PAGES.items():
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, path, content=text.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to the root's pages to their places on the site."""
    for name, path in ROOT_PAGES.items():
        markdown = re.sub(rf"\]\((\.\./)?{re.escape(name)}", f"]({path}", markdown)
    return markdown
