"""Backgrounds of other questions, kept beside points: one for each system, measured again when stale."""

from __future__ import annotations

import datetime
import hashlib
import logging
import math
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._answers import SearchOptions
from surprise_rerank._candidates import Query, Unit
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, NoBackgroundError
from surprise_rerank._pipeline import Pipeline
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors.qdrant._languages import (
    UNKNOWN,
    in_words,
    language_of,
    unread,
    unread_question,
)
from surprise_rerank.connectors.qdrant._search.corpus import Changes, Corpus
from surprise_rerank.connectors.systems._building import build_system
from surprise_rerank.connectors.systems._inputs import BuiltSystem
from surprise_rerank.connectors.systems._register import all_systems, find_system
from surprise_rerank.core._files import UNREADABLE_ARCHIVE, cache_folder, whole_file
from surprise_rerank.encoders.base import Encoder, encode_queries, token_dimension
from surprise_rerank.thresholds._background import QuestionBackground
from surprise_rerank.thresholds._verdicts import AnswerChance, scripts_of
from surprise_rerank.thresholds.varied_questions import ORIGIN, translated_questions, varied_questions

# Seconds after which a pipeline looks whether another process has changed documents or backgrounds.
_PATIENCE = 2.0
# The scorers that a collection may have or not have.
_PARTS = ("bm25", "dynamax")
# `off` keeps indexing and attaching from measuring a background by themselves.
SWITCH = "SURPRISE_RERANK_BACKGROUND"
_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n\s*\n")
_LONGEST = 300  # characters of a first sentence
_SAMPLED = 100  # documents whose scripts are known
_log = logging.getLogger(__name__)


def is_automatic() -> bool:
    """Whether a background is made without being asked for, which the environment can switch off.

    Raises:
        DataError: if the environment says neither `on` nor `off`.
    """
    said = os.environ.get(SWITCH, "on").lower()
    if said not in ("on", "off"):
        raise DataError(f"{SWITCH}={said!r} in the environment; set it to on or off")
    return said == "on"


class KeptBackground:
    """The background that is kept for a system of a collection, as it is now.

    It is read again when another one was measured, here or by another process, and knows how many documents
    came, changed or went since.
    """

    def __init__(self, corpus: Corpus, built: BuiltSystem) -> None:
        self._corpus, self._built = corpus, built
        self._others: dict[Unit, KeptBackground] = {}
        self._background: QuestionBackground | None = None
        self._state: Changes | None = None
        self._looked = -math.inf

    def __call__(self) -> QuestionBackground | None:
        """The background; None where there is none of this model and these scorers, which a warning says."""
        now, state = time.monotonic(), self._corpus.last_changes
        if state is None or state != self._state or now - self._looked > _PATIENCE:
            state = self._corpus.changes()
            if self._state is None or state.measured != self._state.measured:
                self._background = self._read()
            self._state, self._looked = state, now
            if self._background is not None:
                changed = self._corpus.changed_since(self._background)
                self._background = replace(self._background, changed=changed)
        return self._background

    def by_unit(self, unit: Unit) -> KeptBackground:
        """The background of the same system for documents, or for their passages."""
        if self._corpus.pools.unit == unit or self._corpus.by_unit(unit) is self._corpus:
            return self
        if unit not in self._others:
            other = KeptBackground(self._corpus.by_unit(unit), self._built)
            other._others[self._corpus.pools.unit] = self
            self._others[unit] = other
        return self._others[unit]

    def _read(self) -> QuestionBackground | None:
        background = load_background(self._corpus, self._built.name)
        problem = "" if background is None else _problem(self._corpus, self._built, background)
        if problem:
            _log.warning("%s. It is left out", problem)
            return None
        if background is None:
            return None
        background = replace(background, unit=self._corpus.pools.unit)
        if not find_system(self._built.name).encodes:
            return background
        return replace(background, question_doubt=partial(unread_question, self._corpus.model))


def kept_background(
    corpus: Corpus, built: BuiltSystem, min_percentile: float | None = None
) -> KeptBackground:
    """The background of a system as a pipeline reads it; a warning where there is none.

    Raises:
        NoBackgroundError: if a threshold needs one, and there is none that can be used.
        DataError: if the file is damaged.
    """
    kept = KeptBackground(corpus, built)
    of_passages = measured_index(corpus).pools.unit == "passage"
    whose, option = (" of passages", " --passages") if of_passages else ("", "")
    if kept() is None and min_percentile:
        others = [name for name in all_systems() if has_background(corpus, name) and name != built.name]
        of_others = f" (there is one for {', '.join(others)})" if others else ""
        raise NoBackgroundError(
            f"{corpus.where} has no background{whose} of other questions for the system {built.name!r}"
            f"{of_others}, which min_percentile={min_percentile!r} needs; make one ('surprise-rerank tune "
            f"background{option}', or measure_background({built.name!r})), or leave it out"
        )
    if kept() is None and find_system(built.name).encodes and is_automatic():
        _log.warning(
            "%s has no background%s of the system %s, so hits have no percentile; measure it with "
            "measure_background(%r) or 'surprise-rerank tune background%s --system %s'",
            *(corpus.where, whose, built.name, built.name, option, built.name),
        )
    return kept


def load_background(corpus: Corpus, system: str) -> QuestionBackground | None:
    """The background that is kept for a system; None without one, a DataError if the file is damaged."""
    content = corpus.files.read_file(_file_name(corpus, system))
    if content is None:
        return None
    return QuestionBackground.from_bytes(content, f"{corpus.where}: background of {system}")


def has_background(corpus: Corpus, system: str) -> bool:
    """Whether there is one for the system, readable or not."""
    return corpus.files.read_file(_file_name(corpus, system)) is not None


def all_backgrounds(corpus: Corpus) -> dict[str, QuestionBackground]:
    """System -> its background, of those that have one; a DataError if one is damaged."""
    loaded = {name: load_background(corpus, name) for name in all_systems()}
    return {name: background for name, background in loaded.items() if background is not None}


def _problem(corpus: Corpus, built: BuiltSystem, background: QuestionBackground) -> str:
    """Why a background cannot be used for a system; empty where it can."""
    scorer = background.scorer  # empty of one that the caller measured
    if not scorer or scorer.startswith(_made_by(corpus, built.name)):
        counts = {name for name in _PARTS if name in background.names}
        if not built.scorers or counts == {name for name in _PARTS if name in built.scorers}:
            return ""
    return (
        f"{corpus.where}: the background for {built.name!r} is of {scorer} "
        f"({', '.join(background.names)}), and the system has another model or other scorers now; make it "
        "again ('surprise-rerank tune background', or measure_background)"
    )


def _made_by(corpus: Corpus, system: str) -> str:
    """What a background of a system is known by."""
    ensemble = f"ensemble {corpus.ensemble_version}, " if system == "surprise" else ""
    return f"{system} of {corpus.model}, {ensemble}"


def measure_background(
    corpus: Corpus,
    system: str,
    questions: Sequence[str] | None,
    *,
    depth: int = 100,
    origin: str = "",
    chance: AnswerChance | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> QuestionBackground:
    """Measure a background, dated, and keep it in place of the one that there is; see `SearchableCollection`.

    The chance is that of an answer, as it was calibrated before.
    """
    built, encodes, model = build_system(system, corpus), find_system(system).encodes, corpus.encoder
    options = SearchOptions(depth=depth, tenant=corpus.every_tenant, unit=corpus.pools.unit)
    pipeline = Pipeline(model, built.retriever, built.reranker, options, encodes=encodes)
    texts = border.texts("questions", package_questions(corpus) if questions is None else questions)
    queries = encoded_questions(model, texts) if pipeline.encodes else list(map(Query, texts))
    changed = corpus.changes().documents
    scorer, documents = f"{_made_by(corpus, system)}pools of {depth}", len(corpus)
    judged = pipeline.with_background(queries, scorer=scorer, documents=documents, on_progress=on_progress)
    measured = judged.current_background()
    assert measured is not None
    sample = [document.content for document in corpus.sample_documents(_SAMPLED)]
    background = replace(
        measured,
        origin=origin or (ORIGIN if questions is None else "given"),
        made=datetime.datetime.now(datetime.UTC).date().isoformat(),
        depth=depth,
        scripts=measured.scripts | scripts_of(sample),
        doubt=_doubt(corpus.model, sample, texts) if pipeline.encodes else "",
        chance=chance,
        changes=changed,
    )
    store_background(corpus, system, background)
    return background


def package_questions(corpus: Corpus) -> tuple[str, ...]:
    """Return the questions of the package in the language of the documents, or else those in English."""
    sample = [document.content for document in corpus.sample_documents(_SAMPLED)]
    return translated_questions(language_of(sample)) or varied_questions()


def _doubt(model: str, documents: Sequence[str], questions: Sequence[str]) -> str:
    """Why a background of these questions says nothing of documents; empty where it may."""
    language, asked_in = language_of(documents), language_of(questions)
    is_translated = set(questions) <= set(translated_questions(language))  # whose language few words tell
    is_same = is_translated or language == asked_in or UNKNOWN in (language, asked_in)
    if (problem := unread(model, language)) or is_same:
        return problem
    return (
        f"the documents are in {in_words(language)}, and the background questions are in "
        f"{in_words(asked_in)}; give questions in the language of the documents ('surprise-rerank tune "
        "background', or store_background)"
    )


def store_background(corpus: Corpus, system: str, background: QuestionBackground) -> None:
    """Keep the background of a system, in place of the one that there is."""
    corpus.files.write_file(_file_name(corpus, system), background.to_bytes())
    corpus.count_changes(measured=1)


def delete_background(corpus: Corpus, system: str) -> None:
    """Forget the background of a system; nothing happens where there is none."""
    corpus.files.delete_file(_file_name(corpus, system))
    corpus.count_changes(measured=1)


def look_after_backgrounds(corpus: Corpus, *, show_progress: bool = False) -> None:
    """Measure again what is stale after a change, and make the first background if there is none."""
    # The scorers of an index change by a rebuild alone, which asks again; building a system reads a sample.
    may_differ = corpus.storage is None
    for view in _views(corpus):
        kept = all_backgrounds(view)
        stale = {
            name: background
            for name, background in kept.items()
            if replace(background, changed=corpus.changed_since(background)).staleness
            or (may_differ and _problem(corpus, build_system(name, corpus), background))
        }
        if stale or not kept:
            _measure_all(view, stale, show_progress=show_progress)


def kept_by_unit(corpus: Corpus) -> list[dict[str, QuestionBackground]]:
    """The backgrounds of documents by their systems, and those of passages where documents are split."""
    return [all_backgrounds(view) for view in _views(corpus)]


def measure_again(
    corpus: Corpus,
    kept: Sequence[Mapping[str, QuestionBackground]],
    *,
    show_progress: bool = False,
) -> None:
    """Ask the questions of `kept_by_unit` again, of the package where there are none of a unit."""
    for view, backgrounds in zip(_views(corpus), [*kept, {}], strict=False):
        _measure_all(view, backgrounds, show_progress=show_progress)


def measured_index(corpus: Corpus) -> Corpus:
    """Return whose backgrounds count for searches of an index, or of its passages.

    Where no document has several passages, what says something of documents says it of passages.
    """
    documents = corpus.by_unit("document")
    return corpus if documents.pools.density > 1 else documents


def _views(corpus: Corpus) -> list[Corpus]:
    """The documents of an index, and its passages where these have backgrounds of their own."""
    passages = measured_index(corpus.by_unit("passage"))
    return [corpus] if passages is corpus else [corpus, passages]


def _measure_all(corpus: Corpus, kept: Mapping[str, QuestionBackground], *, show_progress: bool) -> None:
    """Measure the backgrounds of these systems again; that of the default system where there are none."""
    if not kept and len(corpus) and is_automatic():
        _measured(corpus, corpus.default_system, None, show_progress=show_progress)
    for name, background in kept.items():
        _measured(corpus, name, background, show_progress=show_progress)


def _measured(
    corpus: Corpus, system: str, kept: QuestionBackground | None, *, show_progress: bool
) -> QuestionBackground:
    """A new background, of the questions of one that is kept or the package's, with a bar."""
    texts = package_questions(corpus) if kept is None else kept.texts
    _log.info("%s: asking %d background questions for %s", corpus.where, len(texts), system)
    same: dict[str, Any] = {"origin": ORIGIN}
    if kept is not None:
        same = {"depth": kept.depth, "origin": kept.origin}
        same |= {"chance": kept.chance} if kept.scorer.startswith(f"{system} of ") else {}
    with Terminal(quiet=not show_progress).bar("background", len(texts), "questions") as advance:
        return measure_background(corpus, system, texts, on_progress=advance, **same)


def title_questions(documents: Iterable[Document], count: int = 1000, seed: int = 0) -> list[str]:
    """Titles of another corpus' documents, in place of logged questions.

    A document without a title gives the first sentence of its text.

    Args:
        documents: of a corpus that has nothing to do with the one that is searched; they are read once.
        count: how many are drawn; all where there are fewer.
        seed: of the draw.
    """
    draw = random.Random(seed)
    kept: list[str] = []
    seen = 0
    for document in documents:
        question = " ".join((document.title or _first_sentence(document.text)).split())
        if not question:
            continue
        seen += 1
        if len(kept) < count:
            kept.append(question)
        elif (place := draw.randrange(seen)) < count:  # Vitter's reservoir: each of those seen is as likely
            kept[place] = question
    return kept


def _first_sentence(text: str) -> str:
    start = text.lstrip()[:_LONGEST]
    end = _SENTENCE_END.search(start)
    return start[: end.start() + 1] if end else start


def _file_name(corpus: Corpus, system: str) -> str:
    before = "passage-" if measured_index(corpus).pools.unit == "passage" else ""
    return f"{before}background-{system}.json"


def encoded_questions(encoder: Encoder, questions: Sequence[str]) -> list[Query]:
    """Questions with their vectors; those of the package are encoded the first time only.

    Questions of the caller's own are nobody else's business, and are not kept.
    """
    packaged = varied_questions()
    if set(packaged) != set(questions) or not encoder.fingerprint:
        return encode_queries(encoder, questions)
    path = _path(encoder, packaged)
    kept = _read(path, packaged, encoder)
    if kept is None:
        kept = encode_queries(encoder, packaged)
        _write(path, kept)
    return kept


def _path(encoder: Encoder, questions: Sequence[str]) -> Path:
    model = (encoder.name, encoder.fingerprint, encoder.dimension, token_dimension(encoder))
    how = [getattr(encoder, name, None) for name in ("precision", "rounds_questions", "prompts")]
    about = (*model, *how, questions)
    return cache_folder() / "questions" / f"{hashlib.sha256(repr(about).encode()).hexdigest()[:32]}.npz"


def _read(path: Path, questions: Sequence[str], encoder: Encoder) -> list[Query] | None:
    """What the file keeps; None where there is none, or it is damaged."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            dense, tokens, ends = stored["dense"], stored["tokens"], stored["ends"]
        size = token_dimension(encoder)
        if dense.shape != (len(questions), encoder.dimension) or dense.dtype != np.float32:
            raise ValueError("of another shape")
        if size is None:
            return [Query(text, vector) for text, vector in zip(questions, dense, strict=True)]
        if tokens.shape != (ends[-1], size) or len(ends) != len(questions):
            raise ValueError("of another shape")
        parts = np.split(tokens, ends[:-1])
        return [Query(*row) for row in zip(questions, dense, parts, strict=True)]
    except UNREADABLE_ARCHIVE as error:
        _log.warning("%s is damaged (%s); the background questions are encoded again", path, error)
        return None


def _write(path: Path, queries: Sequence[Query]) -> None:
    tokens = [np.zeros((0, 1), np.float32) if query.tokens is None else query.tokens for query in queries]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, private=True) as file:
            np.savez(
                file,
                dense=np.stack([query.require_dense() for query in queries]),
                tokens=np.concatenate(tokens),
                ends=np.cumsum([len(vectors) for vectors in tokens]),
            )
    except OSError as error:
        _log.warning("%s cannot be written (%s); the next index encodes the questions again", path, error)
