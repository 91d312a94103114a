"""Whether a question got an answer: `Ranking.verdict`."""

from __future__ import annotations

from typing import NamedTuple

from surprise_rerank.candidates import Ranking, Verdict

# Without a threshold of its own, a question is off-topic if one in ten unrelated questions finds as much.
OFF_TOPIC = 0.9
_ROUNDING = 1e-9


class Evidence(NamedTuple):
    """What is known of a question beside its surprise.

    Attributes:
        chance: that an answer is among the first ten.
        is_weak: whether that is little for this corpus.
        near: the share of questions of the corpus' topic without an answer that find less; None if unknown.
    """

    chance: float
    is_weak: bool
    near: float | None


def verdict_on(
    ranking: Ranking, evidence: Evidence | None = None, min_surprise: float | None = None
) -> Verdict:
    """The verdict on a question's ranking of its whole pool, with the surprise of its documents.

    There is `evidence` where there is a background, and something was found. A question is off-topic below
    `min_surprise`; below `OFF_TOPIC` where None.
    """
    least = OFF_TOPIC if min_surprise is None else min_surprise
    if not len(ranking):
        return Verdict("off-topic", None, None, "nothing was found")
    if ranking.surprise is None or evidence is None:
        return Verdict("answered", None, None, "not compared with other questions: there is no background")
    surprise, chance = float(ranking.surprise.max()), evidence.chance
    compared = f"the best document is above that of {_percent(surprise)} of unrelated questions"
    if surprise < least - _ROUNDING:
        # The chance is that of questions that are meant for the corpus.
        return Verdict("off-topic", surprise, None, f"{compared}; {_percent(least)} are asked for")
    if evidence.near is not None:
        only = "and only" if evidence.is_weak else "and"
        compared = f"{compared}, {only} of {_percent(evidence.near)} of near ones without an answer"
    if evidence.is_weak:
        compared = f"{compared}; the chance of an answer among the first ten is {_percent(chance)}"
        return Verdict("weak", surprise, chance, compared)
    return Verdict("answered", surprise, chance, compared)


def _percent(share: float) -> str:
    shown = f"{100 * share:.3g}"
    return f"{'99.9' if shown == '100' and share < 1 else shown} %"  # n questions tell n / (n + 1) at most
