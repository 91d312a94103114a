"""What verdicts say of questions that no corpus answers, on corpora of several sizes, beside real ones.

    python -m benchmarks.odd_questions --data DATA --keep FOLDER

`DATA` holds `beir/` with cranfield and npl; FOLDER keeps the indexes. The corpora are the first 5, 50 and
1,000 documents of cranfield, and 10,000 of npl. Real questions are those with a relevant document in the
corpus; `found` is whether one is among the first ten. Seconds are of the processor: of storing, and of asking
the background questions, by a model that has not encoded them before and by one that has.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from surprise_rerank.candidates import Verdict
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.pipeline import Pipeline

ODD: Mapping[str, tuple[str, ...]] = {
    "emoji": ("🎉🎉🎉", "😀", "🚀🚀", "❤️❤️❤️", "👍🏽 👍🏽", "🐶🐱", "✈️", "🤷"),
    "markup": (
        *("<script>alert(1)</script>", "<br/><br/>", "<b></b>", "&nbsp;&nbsp;", "{{ 7*7 }}", "[](){}"),
        *(
            "'; DROP TABLE users; --",
            "SELECT * FROM users WHERE 1=1",
            "<div class='x'>text</div>",
            "%3Cscript%3E",
        ),
    ),
    "one letter, digits": ("a", "x", "Z", "?", "...", "42", "3.14159", "0x1F", "--", "a b c"),
    "scripts": (
        *(
            "Где мой велосипед?",
            "如何烤面包",
            "どこで電車に乗りますか",
            "빵을 어떻게 굽나요",
            "كيف أخبز الخبز",
        ),
        *("איך אופים לחם", "रोटी कैसे बनाएं", "πώς φτιάχνω ψωμί", "ขนมปังทำอย่างไร", "როგორ გამოვაცხო პური"),
    ),
    "another language": (
        *(
            "Wie backe ich ein Brot?",
            "Wo kann ich mein Fahrrad abstellen?",
            "Où puis-je acheter du pain frais ?",
        ),
        *("Quelle heure est-il à Tokyo ?", "¿Dónde está la biblioteca?", "¿Cómo se hace una paella?"),
        *("Dov'è la stazione dei treni?", "Hoe laat vertrekt de trein naar Utrecht?"),
        *("Jak upiec chleb na zakwasie?", "Onde fica a praia mais próxima?"),
    ),
    "another topic": (
        *("how do I bake a sourdough bread?", "who won the football game of 1987?", "cheap hotels in Lisbon"),
        *("my cat does not eat her food", "how to tie a bow tie", "lyrics of a song about rain"),
        *("best chess opening for beginners", "when do tulips bloom?", "asdf qwer zxcv", "blah blah blah"),
        *("hello", "what is love?", "tell me a joke"),
    ),
}
SIZES = (5, 50, 1000, 10_000)


def main() -> None:
    """Index the corpora, and ask them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    given = parser.parse_args()
    encoder = load_encoder(given.model)
    for size in given.sizes:
        dataset = load_dataset(str(given.data / "beir" / ("cranfield" if size <= 1000 else "npl")), "test")
        documents = list(islice(dataset.documents, size))
        os.environ["SURPRISE_RERANK_CACHE"] = str(given.keep / f"cache-{size}")  # of a model that is new
        with DocumentIndex.open(given.keep / f"{size}", encoder) as index:
            seconds = [-time.process_time()]
            index.sync(documents, prune=True, background=False)
            for _ in range(2):
                seconds[-1] += time.process_time()
                seconds.append(-time.process_time())
                index.store_background()
            seconds[-1] += time.process_time()
            stored, first, again = seconds
            print(
                f"\n{size} documents: stored in {stored:.1f} s, background {first:.1f} s, again {again:.1f} s"
            )
            _ask(index.pipeline(), dataset, {document.id for document in documents})


def _ask(pipeline: Pipeline, dataset: RetrievalDataset, there: set[str]) -> None:
    for kind, questions in ODD.items():
        _line(kind, [_verdict(pipeline, question) for question in questions])
    relevant = {
        name: {document for document, gain in own.items() if gain > 0 and document in there}
        for name, own in dataset.qrels.items()
    }
    asked = [name for name, own in relevant.items() if own][:60]
    found = [pipeline.search(dataset.queries[name]) for name in asked]
    hits = [bool(relevant[name] & set(own.ids)) for name, own in zip(asked, found, strict=True)]
    for kind, wanted in (("real, found", True), ("real, not found", False)):
        own = [one.verdict for one, hit in zip(found, hits, strict=True) if hit == wanted]
        _line(kind, [verdict for verdict in own if verdict is not None])


def _verdict(pipeline: Pipeline, question: str) -> Verdict:
    verdict = pipeline.search(question).verdict
    assert verdict is not None
    longest = max(len(part.split()) for part in verdict.reason.split(". "))
    assert longest <= 20, verdict.reason
    return verdict


def _line(kind: str, said: list[Verdict]) -> None:
    counts = ", ".join(f"{count} {status}" for status, count in Counter(own.status for own in said).items())
    chances = [own.chance for own in said if own.chance is not None]
    known = f"; chance {np.median(chances):.2f} in the median, {max(chances):.2f} at most" if chances else ""
    print(f"  {kind} ({len(said)}): {counts}{known}")


if __name__ == "__main__":
    main()
