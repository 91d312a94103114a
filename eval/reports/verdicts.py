"""What a table of systems shows, in a sentence for readers."""

from __future__ import annotations

# The level at which differences are called significant.
LEVEL = 0.05


def difference_verdict(
    system: str,
    baseline: str,
    measure: str,
    mean: float,
    interval: tuple[float, float] | None,
    corrected: float,
    over: str,
) -> str:
    """The best system beside the baseline, and whether the difference is significant.

    >>> difference_verdict("fusion", "cosine", "nDCG@10", 0.084, (0.018, 0.169), 0.11, "21 questions")
    'fusion +.084 [.018, .169] nDCG@10 over cosine, Holm p .11: not significant at .05 with 21 questions'
    >>> difference_verdict("surprise", "cosine", "accuracy", 0.04, None, 0.0002, "900 texts")
    'surprise +.040 accuracy over cosine, Holm p .0002: significant at .05 with 900 texts'
    """
    ends = "" if interval is None else f" [{', '.join(map(short, interval))}]"
    is_significant = "significant" if corrected <= LEVEL else "not significant"
    tested = f"Holm p {p_value(corrected)}: {is_significant} at {short(LEVEL, 2)} with {over}"
    if mean > 0:
        return f"{system} +{short(mean)}{ends} {measure} over {baseline}, {tested}"
    return f"no system is above {baseline} in {measure}; the next is {system}, {short(mean)}{ends}, {tested}"


def short(number: float, digits: int = 3) -> str:
    """A number as papers print it, without a zero before the point.

    >>> short(-0.0401), short(1.25), short(-0.0001)
    ('-.040', '1.250', '.000')
    """
    text = f"{number:.{digits}f}"
    sign, size = ("-", text[1:]) if text.startswith("-") else ("", text)
    return f"{sign if float(size) else ''}{size.removeprefix('0')}"


def p_value(p: float) -> str:
    """A p-value with two digits behind the point, or four where it is below .1.

    >>> p_value(0.11), p_value(0.0514), p_value(0.0002), p_value(0.00001), p_value(1.0)
    ('.11', '.0514', '.0002', '< .0001', '1.00')
    """
    if p < 5e-5:
        return "< .0001"
    return short(p, 2 if p >= 0.1 else 4)
