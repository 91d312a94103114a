"""Arguments of all public functions with values of the wrong kind, made from the signatures."""

import asyncio
import inspect
import math
import reprlib
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np
from helpers.foreign import foreign
from helpers.words import WordEncoder

import surprise_rerank
from surprise_rerank import Document, DocumentIndex, FunctionEncoder, SurpriseRerankError

# Values of all kinds. Each argument is given those that its annotation does not allow.
VALUES: dict[str, Any] = {
    "None": None,
    "zero": 0,
    "a negative number": -1,
    "a number": 3,
    "a fraction": 2.5,
    "True": True,
    "NaN": math.nan,
    "a huge number": 10**400,
    "an array of rows": np.zeros((2, 2)),
    "an array of no dimension": np.array(3),
    "a long string": "dogs" * 2000,
    "a number in quotes": "3",
    "one string": "why do dogs bark",
    "bytes": b"dogs",
    "a list of numbers": [1, 2],
    "a list of None": [None],
    "a list of strings": ["dogs", "cats"],
    "a list of dictionaries": [{"id": "a", "text": "dogs"}],
    "a dictionary": {"id": "a"},
    "a dictionary of numbers": {5: 1},
    "a thing": object(),
}
# Numbers that may be 0, negative ones too where a name is in the second set, and those from 0 to 1.
FROM_ZERO = {"offset", "context", "overlap", "documents", "seed", "sample_size", "random_state"}
ANY_NUMBER = {"threshold", "weight", "alpha", "beta", "target_loss", "learning_rate", "timeout"}
SHARES = {"min_percentile", "diversity", "collapse", "shrink_mean", "shrink_deviation"}
# What only the package's own parts make and hand on: a function that takes one is not called by users.
INSIDE = (
    *("Query", "Candidates", "Ranking", "Storage", "Connection", "TokenBatch", "Moments", "FloatArray"),
    *("SampledEnsemble", "Similarity", "Float64Array", "Passage]]", "BuiltSystem", "QuestionBackground"),
)
# (class or function, or one with its parameter) -> why it is not in the table.
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        ("Answer", "Candidates", "Ranking", "Hit", "Query", "Verdict", "Passage"),
        "made by pipelines, retrievers and re-rankers",
    ),
    **dict.fromkeys(("DocumentIndex()", "Collection()"), "made by `open` and `attach`"),
    "QuestionBackground": "made by `measure_background`",
    **dict.fromkeys(
        ("IndexOptions.key_of", "IndexOptions.tenant_filter", "IndexOptions.owned"),
        "of what reads and writes points",
    ),
    "Ensemble()": "made by `from_vectors`, `from_batches` and `load`",
    "System": "of packages that add systems; checked when it is registered",
    "TextReranker.arank": "hands everything on to `rank`",
    **dict.fromkeys(("Collection.remedy", "DocumentIndex.remedy"), "what messages of builders are made of"),
    "DocumentIndex.renew(documents)": "looks for the index first, and none lies there",
    **dict.fromkeys(
        ("SurpriseKMeans", "SurpriseAssignment", "SurpriseClassifier.load(encoder)"),
        "scikit-learn checks them, in the words that its own tests of estimators look for",
    ),
    **dict.fromkeys(
        (
            f"{owner}.{method}"
            for owner in ("Collection", "DocumentIndex")
            for method in ("count_changes", "counting_changes")
        ),
        "of what writes",
    ),
    **dict.fromkeys(
        ("Collection.texts_around", "DocumentIndex.texts_around"),
        "of pipelines, which hand on what they found",
    ),
    "Surprise.scores": "an array for insiders",
    "Document.place": "of passages, which know their characters",
    "TextReranker()(reranker)": "None is the usual one",
    "Pipeline.fit(questions)": "of the pipeline in the table, which has no weights",
    "Ensemble.update(vectors)": "refused by dimension",
}


class Case(NamedTuple):
    """An argument of a function, and a value that its annotation does not allow."""

    function: str
    parameter: str
    kind: str
    call: Callable[[], object]
    value: object

    def outcome(self) -> tuple[str, str]:
        """Whether the call was refused in words, ended in a raw exception, or was accepted; and the words."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = self.call()
        except SurpriseRerankError as error:
            words = str(error)
            shown = (self.parameter, reprlib.repr(self.value), repr(self.value), type(self.value).__name__)
            return ("refused" if any(word in words for word in shown) else "refused without a name"), words
        except Exception as error:  # noqa: BLE001 - whatever it may be
            return "raw", f"{type(error).__name__}: {error}"
        return "accepted", reprlib.repr(result)


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, len(text), text.count("a"), text.count("o")] for text in texts]


class Things:
    """Small real objects that methods are called on, and what else they need."""

    def __init__(self, folder: Path) -> None:
        encoder = FunctionEncoder(embed, name="letters")
        documents = [Document(name, text) for name, text in zip("abc", TEXTS, strict=True)]
        index = DocumentIndex.open(":memory:", encoder)
        index.sync(documents)
        index.set_ensemble(index.ensemble())
        index.measure_background("cosine", [f"{'o' * i}h{'a' * (i % 7)}" for i in range(60)])
        index.measure_background("auto", [f"{'o' * i}h{'a' * (i % 7)}" for i in range(60)])
        client = foreign(embed(TEXTS), [{"text": text} for text in TEXTS])
        ensemble, points = index.ensemble(), np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
        classifier = surprise_rerank.SurpriseClassifier(encoder=encoder).fit(TEXTS, ["a", "b", "a"])
        similarity = surprise_rerank.TextSimilarity("dynamax", WordEncoder())
        from sklearn.cluster import KMeans

        clusterer = KMeans(2, n_init=1)
        things = {
            "index": index,
            "collection": surprise_rerank.Collection.attach(client, "papers", embed=encoder),
            "pipeline": index.pipeline("cosine"),
            "texts": surprise_rerank.TextReranker(encoder),
        }
        collections = surprise_rerank.Federation([index], "cosine")
        self.of: dict[str, Any] = {
            "DocumentIndex": things["index"],
            "Collection": things["collection"],
            "Federation": collections,
            "Pipeline": things["pipeline"],
            "TextReranker": things["texts"],
            "FunctionEncoder": encoder,
            "Ensemble": ensemble,
            "Diversity": surprise_rerank.Diversity(),
            "SearchOptions": surprise_rerank.SearchOptions(),
            "IndexOptions": surprise_rerank.IndexOptions(),
            "Passages": surprise_rerank.Passages(),
            "SurpriseClassifier": classifier,
            "TextSimilarity": similarity,
            "Surprise": surprise_rerank.Surprise(ensemble),
            "FusionReranker": index.pipeline("fusion").reranker,
            "SurpriseKMeans": surprise_rerank.SurpriseKMeans(2).fit(points),
            "SurpriseAssignment": surprise_rerank.SurpriseAssignment(clusterer).fit(points),
            "System": surprise_rerank.connectors.systems._register.SYSTEMS["cosine"],
            "PairedEncoder": surprise_rerank.PairedEncoder(encoder, WordEncoder()),
            "OpenAIEncoder": surprise_rerank.OpenAIEncoder("small", "http://127.0.0.1:9", attempts=1),
        }
        self.usual: dict[str, Any] = {
            "where": client,
            "collection": "papers",
            "collections": [index],
            "question": "why do dogs bark",
            "query": "why do dogs bark",
            "questions": ["why do dogs bark", "who ate the cat"],
            "url": "http://127.0.0.1:9",
            "texts": TEXTS,
            "documents": documents,
            "encoder": encoder,
            "embed": embed,
            "name": "dynamax",
            "unit": "passage",
            "model": encoder,
            "location": str(folder / "index"),
            "path": folder / "ensemble.npz",
            "folder": folder / "classifier",
            "ids": ["a"],
            "id": "a",
            "text": "dogs",
            "fields": frozenset(),
            "size": 2,
            "group_by": "author",
            "tenant": "acme",
            "what": "words",
            "ensemble": ensemble,
            "other": ensemble,
            "anchors": embed(TEXTS),
            "vectors": embed(TEXTS),
            "batches": [embed(TEXTS)],
            "dimension": 4,
            "content": ensemble.to_bytes(),
            "weights": {"bm25": 1.0},
            "retrieve": lambda question: TEXTS,
            "first": TEXTS,
            "second": TEXTS,
            "X": points,
            "clusterer": clusterer,
            "scorers": list(index.pipeline("fusion").reranker.scorers),
            "template": "{}",
            "summary": "what it does",
            "system": self.of["System"],
            "similarity": [0.5, 0.4, 0.3],
            "input_features": None,
            "y": None,
            "labels": None,
            "retriever": things["pipeline"].retriever,
        }
        # What a name stands for in one function only.
        questions = {"questions": ["why do dogs bark", "who ate the cat"], "system": "cosine"}
        self.here: dict[str, dict[str, Any]] = {
            "DocumentIndex.measure_background": questions,
            "Collection.measure_background": questions,
            "DocumentIndex.open": {"location": ":memory:"},
            "Pipeline.calibrated": {"questions": {"q": TEXTS[0]}, "qrels": {"q": {"a": 1.0}}},
            "Pipeline.fit": {"questions": {"q": TEXTS[0]}, "qrels": {"q": {"a": 1.0}}},
            "DocumentIndex.calibrate_chance": {"questions": {"q": TEXTS[0]}, "qrels": {"q": {"a": 1.0}}},
            "Collection.calibrate_chance": {"questions": {"q": TEXTS[0]}, "qrels": {"q": {"a": 1.0}}},
            "OpenAIEncoder()": {"model": "small"},
            "load_encoder": {"name": "no such model"},
            "Ensemble.from_bytes": {"where": "a file"},
            "SurpriseClassifier.fit": {"X": TEXTS, "y": ["a", "b", "a"]},
            "SurpriseKMeans()": {"n_clusters": 2},
            "FunctionEncoder()": {"name": "letters"},
            "PairedEncoder()": {"dense": encoder, "tokens": WordEncoder()},
            "TextSimilarity()": {"encoder": WordEncoder()},
        }
        for name in ("predict", "predict_proba", "decision_function", "with_ensemble"):
            self.here[f"SurpriseClassifier.{name}"] = {"X": TEXTS}

    def arguments(self, function: str, parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
        """Usual values of what a function must be given."""
        here = {**self.usual, **self.here.get(function, {})}
        required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
        extra = list(self.here.get(function, {}))
        return {name: here[name] for name in dict.fromkeys([*required, *extra]) if name in parameters}


TEXTS = ["dogs bark at the moon", "cats ate a fish", "a car on the road"]


def functions() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """(class or empty, name or empty for making one, function) of the package's face."""
    for name in surprise_rerank.__all__:
        thing = getattr(surprise_rerank, name)
        if inspect.isfunction(thing):
            yield "", name, thing
        if not inspect.isclass(thing) or issubclass(thing, Exception) or getattr(thing, "_is_protocol", 0):
            continue
        yield name, "", thing.__init__
        for method in dir(thing):
            member = inspect.getattr_static(thing, method)
            plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            is_ours = inspect.isfunction(plain) and plain.__module__.startswith("surprise_rerank")
            if not method.startswith("_") and is_ours:
                yield name, method, plain


def cases(things: Things) -> Iterator[Case]:
    """Every argument with every value that its annotation does not allow."""
    for owner, method, function in functions():
        label = f"{owner}.{method}" if owner and method else method or f"{owner}()"
        parameters = _parameters(function)
        annotations = {name: str(parameter.annotation) for name, parameter in parameters.items()}
        if owner in LEFT_OUT or label in LEFT_OUT or _is_inside(annotations):
            continue
        for name in parameters:
            if f"{label}({name})" in LEFT_OUT:
                continue
            for kind, value in VALUES.items():
                if not _allows(annotations[name], value, name, function):
                    arguments = things.arguments(label, parameters) | {name: value}
                    yield Case(label, name, kind, _call(things, owner, method, arguments), value)


def _call(things: Things, owner: str, method: str, arguments: Mapping[str, Any]) -> Callable[[], object]:
    def call() -> object:
        thing = getattr(surprise_rerank, owner or method)
        if not owner:
            return thing(**arguments)
        if method:
            is_bound = inspect.isfunction(inspect.getattr_static(thing, method))
            result = getattr(things.of[owner] if is_bound else thing, method)(**arguments)
            return asyncio.run(result) if inspect.iscoroutine(result) else result
        object_ = thing(**arguments)
        if hasattr(object_, "get_params"):  # an estimator of scikit-learn looks at its parameters in `fit`
            needed = {"SurpriseClassifier": (TEXTS, ["a", "b", "a"])}
            object_.fit(*needed.get(owner, (things.usual["X"],)))
        return object_

    return call


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that are given by name, those of a `TypedDict` of options among them."""
    parameters = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            unpacked = _resolved(
                str(parameter.annotation).removeprefix("Unpack[").removesuffix("]"), function
            )
            for option, annotation in getattr(unpacked, "__annotations__", {}).items():
                text = getattr(annotation, "__forward_arg__", str(annotation))
                parameters[option] = parameter.replace(
                    name=option, annotation=text, default=None, kind=inspect.Parameter.KEYWORD_ONLY
                )
        elif name not in ("self", "cls") and not name.startswith("_"):
            parameters[name] = parameter
    return parameters


def _is_inside(annotations: Mapping[str, str]) -> bool:
    return any(kind in text for text in annotations.values() for kind in INSIDE)


def _resolved(annotation: str, function: Callable[..., Any]) -> Any:
    """What an annotation stands for in the module of its function; None where it is not known there."""
    module = sys.modules[getattr(inspect.unwrap(function), "__module__", "builtins")]
    names = {**vars(surprise_rerank), **_all_names(), **vars(module)}
    try:
        return eval(annotation, names)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return None


def _all_names() -> dict[str, Any]:
    return {name: getattr(surprise_rerank, name) for name in surprise_rerank.__all__}


def _allows(annotation: str, value: Any, name: str, function: Callable[..., Any]) -> bool:
    """Whether an annotation allows a value."""
    return any(_part_allows(part, value, name, function) for part in _parts(annotation))


def _parts(annotation: str) -> list[str]:
    """The alternatives of an annotation: those between bars that are in no brackets."""
    parts, depth = [""], 0
    for character in annotation:
        depth += (character == "[") - (character == "]")
        if character == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _part_allows(part: str, value: Any, name: str, function: Callable[..., Any]) -> bool:
    simple = {
        "None": value is None,
        "str": isinstance(value, str),
        "bool": isinstance(value, bool),
        "bytes": isinstance(value, bytes),
        "int": _is_number(value, int, 0 if name in FROM_ZERO else 1, 2**53),
        "float": _is_number(value, (int, float), *_range(name)),
        "dict": isinstance(value, dict),
    }
    if part in simple:
        return bool(simple[part])
    if part in ("Any", "object", "<class 'inspect._empty'>"):
        return True
    if part.endswith("ArrayLike"):
        return not (isinstance(value, str | bytes | dict | type(None)) or type(value) is object)
    head, _, inner = part.rstrip("]").partition("[")
    if head in ("Sequence", "Iterable", "Collection", "tuple", "frozenset", "list"):
        members = inner.split(",")[0]
        rows = value if isinstance(value, list | tuple) else None
        return rows is not None and all(_allows(members, member, name, function) for member in rows)
    if head == "Mapping":
        has_names = isinstance(value, dict) and all(isinstance(key, str) for key in value)
        return has_names and inner.endswith("Any")
    if head.endswith("Callable"):
        return callable(value)
    meant = _resolved(part, function)
    if get_origin(meant) is Literal:
        return isinstance(value, str) and value in get_args(meant)
    if isinstance(meant, type) and not getattr(meant, "_is_protocol", False):
        return isinstance(value, meant)
    if get_origin(meant) in (Union, types.UnionType):
        return any(_class_allows(kind, value, name, function) for kind in get_args(meant))
    return False


def _class_allows(meant: Any, value: Any, name: str, function: Callable[..., Any]) -> bool:
    if get_origin(meant) is Literal:
        return isinstance(value, str) and value in get_args(meant)
    if isinstance(meant, type) and meant in (int, float, str, bool, type(None)):
        return _part_allows({type(None): "None"}.get(meant, meant.__name__), value, name, function)
    origin = get_origin(meant) or meant
    return not isinstance(origin, type) or isinstance(value, origin)


def _range(name: str) -> tuple[float, float]:
    return (0, 1) if name in SHARES else (-math.inf if name in ANY_NUMBER else 0, math.inf)


def _is_number(value: Any, kind: Any, low: float, high: float) -> bool:
    return (
        isinstance(value, kind)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
        and low <= value <= high
    )
