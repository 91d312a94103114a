"""Results for a language model: a verdict and JSON, of a bounded length, without what a reader does not see.

Texts of documents are strings of that JSON, so that none of them can pass for the answer around it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import regex

from surprise_rerank._documents import encodable, without_title

# An answer in words, and the same as JSON values.
Answer: TypeAlias = tuple[str, dict[str, Any]]

# Next to these letters, of Arabic and of Indian scripts, a joiner is a part of the spelling.
_JOINERS = re.compile("[\u200c\u200d]+")
_ARABIC, _VIRAMA = "AL", 9
# Control and format characters, halves, and what Unicode lets be shown as nothing: variation selectors,
# fillers, tags. Words that nobody sees can be written in them. Arabic signs around numbers are seen, and
# joiners are looked at apart.
_HIDDEN = regex.compile(
    r"(?V1)[[\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]--[\n\t\r\u200c\u200d\p{Bidi_Class=AN}]]"
)
_SPACES, _LINES = re.compile(r"[^\S\n\u2028\u2029]+"), re.compile(r"\s*[\n\u2028\u2029]\s*")
_CUT = "…"
_NAME, _MISSING, _REASON, _METADATA = 200, 40, 500, 500  # characters of an id or title, a reason, metadata
_ROOMS = (10**6, 8000, 4000, 2000, 1000, 500, 250, 120)  # characters of each text
_ADVICE = {
    "weak": "The documents may not answer this; say so where you use them.",
    "off-topic": "The documents do not answer this; say so, and do not use the results as an answer.",
    "unknown": "Nobody knows whether the documents answer this; judge for yourself, and say so.",
    "no match": "No document may be used for this; say so.",
}


def _joiner(match: re.Match[str]) -> str:
    """A joiner where spelling has one (RFC 5892, A.1 and A.2), and nothing elsewhere."""
    text, (start, end) = match.string, match.span()
    before, after = text[start - 1 : start], text[end : end + 1]
    if not before or not after or end - start > 1:
        return ""
    is_arabic = unicodedata.bidirectional(before) == unicodedata.bidirectional(after) == _ARABIC
    return match[0] if is_arabic or unicodedata.combining(before) == _VIRAMA else ""


def cleaned(text: str) -> str:
    """A text without hidden characters, halves of characters, and more white space than it needs."""
    seen = _JOINERS.sub(_joiner, _HIDDEN.sub("", encodable(text)))
    return _LINES.sub("\n", _SPACES.sub(" ", seen)).strip()


def one_line(text: str, most: int = _NAME) -> str:
    """A title, an id or a sentence: one line, cut where it is too long."""
    line = cleaned(text).replace("\n", " ")
    return line if len(line) <= most else line[: most - 1] + _CUT


def around(text: str, sentence: str, most: int) -> str:
    """At most so many characters of a cleaned text, whole words: those around a sentence of it."""
    if len(text) <= most:
        return text
    core, room = cleaned(sentence.strip(_CUT)), most - 2 * len(_CUT)
    start = max(text.find(core), 0) - max(0, room - len(core)) // 3
    start = max(0, min(start, len(text) - room))
    part = text[start : start + room]
    if start and " " in part[:40]:
        part = part[part.index(" ") + 1 :]
    if start + room < len(text) and " " in part[-40:]:
        part = part[: part.rindex(" ")]
    return f"{_CUT * bool(start)}{part}{_CUT * (start + room < len(text))}"


def search_answer(searched: Mapping[str, Any], most: int) -> Answer:
    """Hits of `server.ranking.search` with excerpts, in at most so many characters of either form.

    The verdict is first, then as many hits as there is room for, and as much of their texts.
    """
    bodies = [_result(rank, hit) for rank, hit in enumerate(searched["results"], start=1)]
    verdict, packed = _verdict(searched["verdict"]), cleaned(searched.get("packed", ""))

    def shown(count: int, room: int) -> dict[str, Any]:
        if "packed" in searched:
            entries = [entry for entry, _, _ in bodies[:count]]
            text = around(packed, "", room)
            left = _dropped(count, len(bodies), most)
            left += ["The text to read is cut at its end."] * (len(text) < len(packed))
            values = {"verdict": verdict, "system": searched["system"], "read": text}
            return {**values, "results": entries, "left_out": left}
        results = [
            {**entry, "text": around(text, sentence, room), "shortened": len(text) > room}
            for entry, text, sentence in bodies[:count]
        ]
        cut = sum(result["shortened"] for result in results)
        left = _dropped(count, len(bodies), most)
        if cut:
            left.append(f"{cut} of {count} texts are shortened around the sentence that matches best.")
        return {"verdict": verdict, "system": searched["system"], "results": results, "left_out": left}

    return _fitting(shown, len(bodies), _ROOMS, most)


def explained_answer(explained: Mapping[str, Any], most: int) -> Answer:
    """Why documents have their places, with as many of the words that matched as there is room for.

    `explained` has verdict, system, candidates, missing ids, and of each document what
    `RankingExplanation.to_json` has of it.
    """
    documents = [_explained(document) for document in explained["documents"]]
    missing = ", ".join(one_line(name, _MISSING) for name in explained["missing"])
    verdict, pool = _verdict(explained["verdict"]), explained["candidates"]
    unknown = [f"not among the {pool} candidates: {missing}"] if missing else []

    def shown(count: int, words: int) -> dict[str, Any]:
        left = [*unknown, *_dropped(count, len(documents), most)]
        kept = [{**document, "words": document["words"][:words]} for document in documents[:count]]
        values = {"verdict": verdict, "system": explained["system"], "candidates": pool}
        return {**values, "documents": kept, "left_out": left}

    return _fitting(shown, len(documents), (8, 4, 2, 0), most)


def status_answer(values: dict[str, Any], most: int) -> Answer:
    """What is served; where that is too much, without summaries and the rarest keys of metadata."""

    def shown(count: int, summaries: int) -> dict[str, Any]:
        systems = [{**system, "summary": system["summary"] * summaries} for system in values["systems"]]
        keys = values["metadata_keys"][:count]
        return {**values, "model": one_line(values["model"]), "systems": systems, "metadata_keys": keys}

    return _fitting(shown, len(values["metadata_keys"]), (1, 0), most)


def _fitting(
    shown: Callable[[int, int], dict[str, Any]], count: int, rooms: Sequence[int], most: int
) -> Answer:
    """The answer with the most entries, and then the most room for each, that fits.

    It has the verdict as a sentence, where there is one, and all as JSON.
    """

    def answer(room: int) -> Answer:
        values = shown(count, room)
        verdict = values.get("verdict")
        if verdict is None:
            return _json(values), values
        status = verdict["status"]
        words = f"Verdict: {status}: {verdict['reason']}. {_ADVICE.get(status, '')}".rstrip()
        return f"{words}\n\n{_json(values)}", values

    while count > 1 and len(answer(rooms[-1])[0]) > most:
        count -= 1
    answers = [answer(room) for room in rooms]
    return next((answer for answer in answers if len(answer[0]) <= most), answers[-1])


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)


def _verdict(verdict: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if verdict is None else {**verdict, "reason": one_line(verdict["reason"], _REASON)}


def _dropped(shown: int, count: int, most: int) -> list[str]:
    if shown == count:
        return []
    limit = f"an answer has at most {most} characters. Ask for fewer (top_k), or more precisely."
    return [f"{count - shown} of {count} documents are left out: {limit}"]


def _head(rank: int, document: Mapping[str, Any]) -> dict[str, Any]:
    named = {"rank": rank, "id": one_line(document["line_id"]), "title": one_line(document["title"])}
    return {**named, "percentile": document["percentile"], "score": document["score"]}


def _result(rank: int, hit: Mapping[str, Any]) -> tuple[dict[str, Any], str, str]:
    """An entry without its text, the text, and the sentence of it that matches best."""
    try:
        small = len(_json(hit["metadata"])) <= _METADATA
    except RecursionError:
        small = False
    start = 0 if hit["passage"] is None else hit["passage"]["start"]
    text = cleaned(without_title(hit["text"], hit["title"], start))
    metadata = _cleaned_values(hit["metadata"]) if small else {}
    citation = one_line(hit["citation"])
    return {**_head(rank, hit), "citation": citation, "metadata": metadata}, text, hit["excerpt"]["text"]


def _cleaned_values(value: Any) -> Any:
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, Mapping):
        return {cleaned(key): _cleaned_values(member) for key, member in value.items()}
    return [_cleaned_values(member) for member in value] if isinstance(value, list) else value


def _explained(document: Mapping[str, Any]) -> dict[str, Any]:
    words = [
        {"word": one_line(word["token"]), "match": one_line(word["match"]), "share": round(word["share"], 3)}
        for word in sorted(document["tokens"] or [], key=lambda word: -word["share"])
        if word["match"] is not None and word["share"] > 0
    ]
    kept = ("raw", "mean", "deviation", "z", "weight", "contribution")
    scorers = {
        scorer: {key: None if part[key] is None else round(part[key], 4) for key in kept}
        for scorer, part in document["scorers"].items()
    }
    return {
        **_head(document["rank"], document),
        "citation": one_line(document["citation"]),
        "rank_before": document["before"],
        "scorers": scorers,
        "words": words,
    }
