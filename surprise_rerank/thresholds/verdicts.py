"""Whether a question got an answer: `Ranking.verdict`."""

from __future__ import annotations

from surprise_rerank.candidates import Ranking, Verdict

# Without a threshold of its own, a question is off-topic if one in ten unrelated questions finds as much.
OFF_TOPIC = 0.9
_ROUNDING = 1e-9


def verdict_on(ranking: Ranking, min_surprise: float | None = None) -> Verdict:
    """The verdict on a question's ranking of its whole pool.

    Args:
        ranking: with the surprise of its documents, where there is a background.
        min_surprise: what is off-topic below it; `OFF_TOPIC` where None.
    """
    least = OFF_TOPIC if min_surprise is None else min_surprise
    if not len(ranking):
        return Verdict("off-topic", None, None, "nothing was found")
    if ranking.surprise is None:
        return Verdict("answered", None, None, "not compared with other questions: there is no background")
    surprise = float(ranking.surprise[0])
    compared = f"the best document is above that of {100 * surprise:.1f} % of unrelated questions"
    if surprise < least - _ROUNDING:
        return Verdict("off-topic", surprise, None, f"{compared}; {100 * least:g} % are asked for")
    return Verdict("answered", surprise, None, compared)
