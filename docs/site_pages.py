"""A hook of mkdocs: pages of the site that are not files of docs/, and examples in docstrings as code."""

from __future__ import annotations

import importlib
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# Package -> the title of its page, in the order of the reference. What a package's `__all__` names is public,
# or of its modules what PUBLIC names.
PACKAGES = {
    "surprise_rerank": "Documents, pipelines, errors",
    "surprise_rerank.encoders": "Encoders",
    "surprise_rerank.surprise": "Surprise",
    "surprise_rerank.similarities": "Similarities",
    "surprise_rerank.rerank": "Re-rankers",
    "surprise_rerank.thresholds": "Thresholds",
    "surprise_rerank.classify": "Classification and clustering",
    "surprise_rerank.connectors.qdrant": "Qdrant",
    "surprise_rerank.connectors.systems": "Systems",
    "surprise_rerank.connectors.readers": "Readers of documents",
    "surprise_rerank.connectors.server": "The server",
    "surprise_rerank.connectors.similar": "Similar documents",
}
PUBLIC = {
    "surprise_rerank.encoders": """
        base.Encoded base.TokenEncoder base.encode_queries multi_vector.MultiVectorEncoder
        static.StaticEncoder transformer.SentenceTransformerEncoder
        static.WordVectors static.load_word_vectors""",
    "surprise_rerank.surprise": """
        anchor_scores.AnchorScores linear_form.LinearForm linear_form.augmented_documents
        linear_form.augmented_query neighbours.Neighbours neighbours.nearest sampled.SampledEnsemble
        score.SurpriseScores score.crossover_weight score.empirical_probability score.log_survival
        score.normalized_similarity score.normalized_similarity_exact score.probability
        score.probability_by_definition score.z_scores""",
    "surprise_rerank.similarities": """
        definitions.Similarity definitions.WordStatistics table.NamedSimilarity table.find_similarity""",
    "surprise_rerank.classify": "few_shot.TrainingHistory",
}
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


def public_names() -> dict[str, dict[str, str]]:
    """Package -> full name, such as surprise_rerank.pipeline.Pipeline -> the shortest name to import it by.

    Each class and function is in the package that holds its module, and else in the package that names it.
    """
    pages: dict[str, dict[str, str]] = {package: {} for package in PACKAGES}
    seen: set[str] = set()
    for package in PACKAGES:
        names = PUBLIC[package].split() if package in PUBLIC else importlib.import_module(package).__all__
        for path in (f"{package}.{own}" for own in names):
            place, _, name = path.rpartition(".")
            value: Any = getattr(importlib.import_module(place), name)
            module = getattr(value, "__module__", "") or ""
            full = f"{module}.{getattr(value, '__qualname__', name)}"
            if not module.startswith("surprise_rerank") or full in seen:
                continue  # constants and aliases of types are described where they are used
            seen.add(full)
            home = max((p for p in PACKAGES if module.startswith(f"{p}.")), key=len, default=package)
            pages[home][full] = path
    return pages


def api_pages() -> Iterator[tuple[str, str]]:
    """The path and the Markdown of each page of the reference."""
    overview = ["# Python", "", "Public names, and where to import them from.", ""]
    for package, names in public_names().items():
        title, path = PACKAGES[package], f"{package.split('.')[-1]}.md"
        overview += [f"## [{title}]({path})", "", "| name | import |", "|---|---|"]
        page = [f"# {title}", ""]
        for full, shortest in sorted(names.items(), key=lambda item: item[1].lower()):
            origin, _, name = shortest.rpartition(".")
            overview.append(f"| [`{name}`][{full}] | `from {origin} import {name}` |")
            page += [f"::: {full}", ""]
        overview.append("")
        yield f"api/{path}", "\n".join(page)
    yield "api/index.md", "\n".join(overview)


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
    config.nav.insert(place, {"Python": [{"Overview": "api/index.md"}, *pages]})
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
