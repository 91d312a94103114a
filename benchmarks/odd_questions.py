"""What verdicts say of questions that no corpus answers, on corpora of several sizes, beside real ones.

    python benchmarks/odd_questions.py --data DATA --keep FOLDER

`DATA` holds `beir/` with cranfield and npl; FOLDER keeps the indexes. The corpora are the first 5, 50 and
1,000 documents of cranfield, and 10,000 of npl. Real questions are those with a relevant document in the
corpus; `found` is whether one is among the first ten. Seconds are of the processor: of storing, and of asking
the background questions, by a model that has not encoded them before and by one that has.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import click
import numpy as np

from surprise_rerank.candidates import Ranking
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset

# A question a line.
ODD = {
    kind: text.strip().splitlines()
    for kind, text in {
        "emoji": "🎉🎉🎉\n😀\n🚀🚀\n❤️❤️❤️\n👍🏽 👍🏽\n🐶🐱\n✈️\n🤷",
        "markup": """
<script>alert(1)</script>
<br/><br/>
<b></b>
&nbsp;&nbsp;
{{ 7*7 }}
[](){}
'; DROP TABLE users; --
SELECT * FROM users WHERE 1=1
<div class='x'>text</div>
%3Cscript%3E""",
        "one letter, digits": "a\nx\nZ\n?\n...\n42\n3.14159\n0x1F\n--\na b c",
        "scripts": """
Где мой велосипед?
如何烤面包
どこで電車に乗りますか
빵을 어떻게 굽나요
كيف أخبز الخبز
איך אופים לחם
रोटी कैसे बनाएं
πώς φτιάχνω ψωμί
ขนมปังทำอย่างไร
როგორ გამოვაცხო პური""",
        "another language": """
Wie backe ich ein Brot?
Wo kann ich mein Fahrrad abstellen?
Où puis-je acheter du pain frais ?
Quelle heure est-il à Tokyo ?
¿Dónde está la biblioteca?
¿Cómo se hace una paella?
Dov'è la stazione dei treni?
Hoe laat vertrekt de trein naar Utrecht?
Jak upiec chleb na zakwasie?
Onde fica a praia mais próxima?""",
        "another topic": """
how do I bake a sourdough bread?
who won the football game of 1987?
cheap hotels in Lisbon
my cat does not eat her food
how to tie a bow tie
lyrics of a song about rain
best chess opening for beginners
when do tulips bloom?
asdf qwer zxcv
blah blah blah
hello
what is love?
tell me a joke""",
    }.items()
}


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="The folder with beir/.")
@click.option("--keep", type=click.Path(path_type=Path), required=True, help="Folder of the indexes.")
@click.option("--size", "sizes", type=int, multiple=True, default=(5, 50, 1000, 10_000), show_default=True)
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True)
def main(data: Path, keep: Path, sizes: tuple[int, ...], model: str) -> None:
    """Index the corpora, and ask them."""
    encoder = load_encoder(model)
    for size in sizes:
        dataset = load_dataset(str(data / "beir" / ("cranfield" if size <= 1000 else "npl")), "test")
        documents = dataset.documents[:size]
        os.environ["SURPRISE_RERANK_CACHE"] = str(keep / f"cache-{size}")  # of a model that is new
        with DocumentIndex.open(keep / f"{size}", encoder) as index:
            clock = [time.process_time()]
            index.sync(documents, prune=True, background=False)
            for _ in range(2):
                clock.append(time.process_time())
                index.measure_background()
            stored, first, again = np.diff([*clock, time.process_time()])
            print(
                f"\n{size} documents: stored in {stored:.1f} s, background {first:.1f} s, again {again:.1f} s"
            )
            pipeline = index.pipeline()
            for kind, questions in ODD.items():
                tell(kind, [pipeline.search(question) for question in questions])
            there = {document.id for document in documents}
            judged = {
                name: {document for document, gain in own.items() if gain > 0 and document in there}
                for name, own in dataset.qrels.items()
            }
            asked = [name for name, own in judged.items() if own][:60]
            found = {name: pipeline.search(dataset.queries[name]) for name in asked}
            tell("real, found", [own for name, own in found.items() if judged[name] & {*own.ids}])
            tell("real, not found", [own for name, own in found.items() if not judged[name] & {*own.ids}])


def tell(kind: str, found: list[Ranking]) -> None:
    """A line: how many questions have which verdict, and their chances."""
    said = [own.verdict for own in found if own.verdict is not None]
    counts = ", ".join(f"{count} {status}" for status, count in Counter(own.status for own in said).items())
    chances = [own.chance for own in said if own.chance is not None]
    known = f"; chance {np.median(chances):.2f} in the median, {max(chances):.2f} at most" if chances else ""
    print(f"  {kind} ({len(said)}): {counts}{known}")


if __name__ == "__main__":
    main()
