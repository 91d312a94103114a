"""Few-shot classification: draws of examples by systems, from names of models to a report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from surprise_rerank.classify.few_shot import FewShotTraining
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.files import cache_folder
from surprise_rerank.encoders.word_vectors import is_word_vectors
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.studies.classify.draws import draw_examples, draw_texts
from surprise_rerank.eval.studies.classify.few_shot_systems import (
    NAMELESS,
    SETFIT,
    SURPRISES,
    Examples,
    FewShotResult,
    Learners,
    possible_systems,
    refuse_training,
)
from surprise_rerank.eval.studies.classify.few_shot_tables import (
    Cells,
    draws_table,
    learning_curve,
    systems_table,
)
from surprise_rerank.eval.studies.classify.settings import FewShotSettings
from surprise_rerank.eval.studies.classify.task import Task
from surprise_rerank.eval.studies.labelled_models import LabelledVectors, load_models
from surprise_rerank.eval.studies.result_cache import Key, ResultCache


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    """The texts of one seed.

    Attributes:
        examples: rows of the examples of the largest number of shots; a smaller number takes the first.
        tested: rows of the texts that are tested, the same for every number of shots.
    """

    examples: IntArray
    tested: IntArray


def evaluate_few_shot(task: Task, settings: FewShotSettings, terminal: Terminal | None = None) -> Report:
    """Learn from a few labelled texts, with several systems, and classify others.

    Results are kept in the cache, by model, texts, labels, examples and system: what was measured before is
    read.

    Args:
        task: examples are drawn from its texts; `task.other` are tested, or the texts that are no examples.
        settings: what is measured.
        terminal: for progress; quiet by default.

    Returns:
        The tables `few-shot`, a row for each model, number of examples and system, and `few-shot-draws`, one
        for each draw of them, too.

    Raises:
        DataError: if there are not enough texts, or no system of any model can be measured.
        MissingExtraError: if SetFit is asked for and not installed.
        SurpriseRerankError: if a model cannot be loaded or trained, or a result cannot be kept.
    """
    terminal = terminal or Terminal(quiet=True)
    folder = settings.cache or cache_folder()
    for name in filter(is_word_vectors, settings.models):  # before another model is trained
        refuse_training(settings.systems or (), name)
    models = load_models(settings.models, folder, terminal)
    study = _Study(
        task, settings, ResultCache(folder / "few-shot", FewShotResult, named_by="system"), terminal
    )
    cells: Cells = {}
    described = []
    for vectors in models:
        described.append(vectors.described())
        cells.update(study.cells(vectors))
    if not cells:
        raise DataError(study.left_out[0])
    kind = "balanced" if settings.balanced else "not balanced"
    return Report(
        f"Few examples, {kind}: {task.texts.name}",
        (systems_table(cells), draws_table(cells)),
        tuple(learning_curve(cells)),
        (*study.notes(cells), *task.remarks()),
        {**study.facts(), "models": described},
    )


@dataclass
class _Study:
    """The draws, which are the same for every model and system, and the results that are kept."""

    task: Task
    settings: FewShotSettings
    results: ResultCache[FewShotResult]
    terminal: Terminal
    left_out: list[str] = field(default_factory=list)  # what is not measured, and why
    _draws: list[_Draw] = field(init=False)

    def __post_init__(self) -> None:
        if len(set(self.task.texts.labels)) < 2:
            raise DataError(f"the texts of {self.task.texts.name} have one label; examples need two at least")
        self._draws = [self._drawn(seed) for seed in range(self.settings.seeds)]

    def cells(self, vectors: LabelledVectors) -> Cells:
        """The results of a model: read where they are kept, measured and kept where not."""
        systems, missing = possible_systems(self.settings.systems, vectors.encoder)
        try:
            self.task.label_vectors(vectors.encoder, self.settings.template)
        except DataError as error:
            missing.append(f"{vectors.name}: no system that uses the labels' names, as {error}")
            self.terminal.say(missing[-1])
            systems = tuple(name for name in systems if name in NAMELESS)
        self.left_out += [note for note in missing if note not in self.left_out]
        cells: Cells = {}
        total = len(self.settings.shots) * len(self._draws)
        for shots in self.settings.shots:
            for seed, draw in enumerate(self._draws):
                number = self.settings.shots.index(shots) * len(self._draws) + seed + 1
                title = f"{vectors.name}: k = {shots}, draw {number} of {total}"
                learners = self._learners(vectors, draw, shots, seed, title)
                for system in systems:
                    key = self._key(vectors, learners.examples, system)
                    cells[vectors.name, shots, system, seed] = self.results.get(
                        key, partial(learners.result, system)
                    )
        return cells

    def _learners(self, vectors: LabelledVectors, draw: _Draw, shots: int, seed: int, title: str) -> Learners:
        own = self.task.truth
        present = len(np.unique(own))
        rows = draw.examples[: shots * present]
        other = self.task.other
        tested, truth = (self.task.texts, own) if other is None else (other, self.task.other_truth)
        examples = Examples(
            texts=[self.task.texts.texts[row] for row in rows],
            truth=own[rows],
            tested=[tested.texts[row] for row in draw.tested],
            tested_truth=truth[draw.tested],
            seed=seed,
        )
        return Learners(
            vectors,
            self.task,
            examples,
            # Read or made when a system asks for them.
            lambda: (vectors.of(self.task.texts)[rows], vectors.of(tested)[draw.tested]),
            self.settings.template,
            self.settings.weight,
            self.settings.setfit_steps,
            self.terminal,
            title,
        )

    def _drawn(self, seed: int) -> _Draw:
        settings, truth = self.settings, self.task.truth
        rng = np.random.default_rng(seed)
        largest = max(settings.shots)
        if self.task.other is not None:
            tested = draw_texts(np.arange(len(self.task.other)), settings.test_size, rng)
            source = np.arange(len(truth))
        elif settings.test_size is not None:
            # Drawn first, so that they are the same whatever numbers of examples are asked for.
            tested = draw_texts(np.arange(len(truth)), settings.test_size, rng)
            source = np.setdiff1d(np.arange(len(truth)), tested)
        else:
            tested, source = np.zeros(0, np.int64), np.arange(len(truth))
        self._check_source(source)
        picked = draw_examples(
            truth[source],
            largest,
            self.task.classes,
            np.random.default_rng((seed, 1)),
            balanced=settings.balanced,
        )
        examples = source[picked]
        if not len(tested):
            tested = np.setdiff1d(source, examples)
        if not len(tested):
            raise DataError(f"all {len(truth)} texts are examples, none is left to test; give fewer shots")
        return _Draw(examples, tested)

    def _check_source(self, source: IntArray) -> None:
        """Every class of the file has an example, or its number of shots would mean something else."""
        truth = self.task.truth
        lost = np.setdiff1d(truth, truth[source])
        if len(lost):
            raise DataError(
                f"the test takes all texts of the class {self.task.classes[lost[0]]!r}; give a smaller "
                "--test-size, or --test"
            )

    def _key(self, vectors: LabelledVectors, examples: Examples, system: str) -> Key:
        parts = {
            "examples": [examples.texts, examples.truth.tolist()],
            "tested": [examples.tested, examples.tested_truth.tolist()],
            "names": [[name, list(names)] for name, names in self.task.names.items()],
        }
        return {
            **vectors.described(),
            **{name: _digits(content) for name, content in parts.items()},
            "template": self.settings.template,
            "seed": examples.seed,
            "system": system,
            "weight": self.settings.weight if system in SURPRISES else 0.0,
            "steps": (self.settings.setfit_steps or 0) if system == SETFIT else 0,
        }

    def notes(self, cells: Cells) -> Iterator[str]:
        """Notes for readers."""
        settings, texts = self.settings, self.task.texts
        drawn = "of each class" if settings.balanced else "for each class on average, at least 1 of each"
        yield f"k: examples {drawn}, drawn from {texts.name}; a smaller k's are among a larger one's"
        tested = self.task.other or texts
        sizes = sorted({len(draw.tested) for draw in self._draws})
        shown = " or ".join(map(str, sizes))
        yield f"texts tested: {shown}, of {tested.name}; draws of examples: {settings.seeds}"
        systems = {system for _, _, system, _ in cells}
        if systems & {"cosine", "surprise"}:
            yield "cosine, surprise: the encoder fine-tuned once for both"
        if systems & {"cosine-linear", "surprise-linear"}:
            yield "-linear: a linear map of the model's vectors, trained once for both"
        if systems & set(SURPRISES):
            yield "surprise's ensemble: the tested texts, without their labels"
        training = FewShotTraining()
        unreached = [cell for cell in cells.values() if cell.reached is False]
        if unreached:
            yield (
                f"{len(unreached)} of {len(cells)} results come from a training that ended after "
                f"{training.max_epochs} epochs, above the loss of {training.target_loss:g}"
            )
        if SETFIT in systems:
            steps = settings.setfit_steps
            cut = "one epoch of all pairs" if steps is None else f"at most {steps} steps of 16 pairs"
            yield f"setfit: its defaults, {cut}, and a logistic regression as head"
        yield from self.left_out
        yield from self.results.remarks()

    def facts(self) -> dict[str, Any]:
        """FewShotSettings and sizes."""
        settings = self.settings
        return {
            **self.task.facts(),
            "tested": [len(draw.tested) for draw in self._draws],
            "template": settings.template,
            "shots": list(settings.shots),
            "seeds": settings.seeds,
            "balanced": settings.balanced,
            "weight": settings.weight,
            "setfit_steps": settings.setfit_steps,
        }


def _digits(content: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
