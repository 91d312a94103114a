"""The label or the cluster of every text of a file that has no labels."""

from __future__ import annotations

from functools import partial

from surprise_rerank.classify.classifier import SurpriseClassifier
from surprise_rerank.classify.cluster import SurpriseKMeans
from surprise_rerank.classify.labels import Labels
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.encoders.base import dense_vectors
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.studies.classify.task import read_label_names
from surprise_rerank.eval.studies.labelled import load_models, read_unlabelled
from surprise_rerank.eval.studies.settings import ClassifySettings, ClusterSettings


def label_texts(settings: ClassifySettings, terminal: Terminal) -> Report:
    """Give every text of a file the label whose name is the most surprising, by the classifier's defaults."""
    if settings.names is None:
        raise DataError("answers=yes classifies by the labels' names; give them, --set names=FILE.yaml")
    labels = Labels.of(read_label_names(settings.names))
    rows: list[tuple[Cell, ...]] = []
    texts = read_unlabelled(settings.file, text=settings.text, on_error=settings.on_error).sample(
        settings.limit
    )
    for model in load_models(settings, terminal):
        vectors = model.of(texts)
        encode = partial(dense_vectors, model.encoder, kind="query")
        anchors = labels.vectors(settings.templates[0], encode)
        classifier = SurpriseClassifier(
            dict(zip(labels.classes.tolist(), anchors, strict=True)),
            weight=settings.weight,
            crossover_size=settings.crossover_size,
        )
        chosen = classifier.fit(vectors).predict(vectors)
        rows += [(model.name, text, str(label)) for text, label in zip(texts.texts, chosen, strict=True)]
    return _report(texts.name, "label", rows)


def group_texts(settings: ClusterSettings, terminal: Terminal) -> Report:
    """Give every text of files the number of its cluster, by the clusterer's defaults."""
    if settings.clusters is None:
        raise DataError("answers=yes has no labels to count clusters by; give --set clusters=N")
    rows: list[tuple[Cell, ...]] = []
    for file in settings.files:
        texts = read_unlabelled(file, text=settings.text, on_error=settings.on_error).sample(settings.limit)
        for model in load_models(settings, terminal):
            groups = SurpriseKMeans(settings.clusters, random_state=0).fit_predict(model.of(texts, "query"))
            rows += [(model.name, text, int(group)) for text, group in zip(texts.texts, groups, strict=True)]
    return _report(", ".join(file.name for file in settings.files), "cluster", rows)


def _report(name: str, answer: str, rows: list[tuple[Cell, ...]]) -> Report:
    columns = (Column("model"), Column("text"), Column(answer))
    return Report(f"Texts of {name}", (Table("answers", f"The {answer} of each text", columns, tuple(rows)),))
