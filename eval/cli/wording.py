"""Messages of the library as a command shows them: with its options in place of Python's names."""

from __future__ import annotations

import re

# An argument, not a part of a path or of a file's name: these are the user's own words.
_NO_PATH, _TO_ITS_END = r"(?<![\w/\\.-])", r"(?![\w/\\]|\.\w)"
_VALUE = r"'?(\d+\.\d+|\w+)'?" + _TO_ITS_END

# What the library says -> what the command line says. Each is applied to what those before have made of the
# message: a phrase stands before the words that it contains, and after those that it goes on with.
_PHRASES: tuple[tuple[str, str], ...] = (
    (r"name it with Fields\(text=\.\.\.\)", "name it with --text-field"),
    (r"name it with Fields\(id=\.\.\.\)", "name it with --id-field"),
    (r"with Fields\(id='content'\)", "with --id-field content"),
    (r"list the columns to keep with Fields\(metadata=\[\.\.\.\]\)", "leave the column out of the file"),
    (r"fields are for tables", "--id-field, --title-field and --text-field are for tables"),
    (r"with format=\.\.\.", "with --format"),
    (r"a url is that of a Qdrant server, with collection=\.\.\.", "a url is that of a Qdrant server, which "
     "--from-url URL with --from-collection NAME reads"),
    (r"give index=FOLDER, or url=URL with collection=NAME", "give --index FOLDER, or --qdrant-url URL with "
     "--collection NAME"),
    (r"\bstore_background\b", "'surprise-rerank background set'"),
    (r"TextReranker\.with_background\(questions, retrieve\)\.background\.save\(path\)", "'surprise-rerank "
     "background set'"),
    (r"\bwith_background\(questions\)", "'surprise-rerank background set', and search that index"),
    (r"\bset_ensemble\b", "'surprise-rerank ensemble set'"),
    (r"\brefresh_statistics\b", "'surprise-rerank ensemble refresh'"),
    (r"\bEnsemble\.save\b", "'surprise-rerank ensemble save'"),
    (r"make it with IndexOptions\(surprise_vector=True\)", "make it with --surprise-vector"),
    (r"load_encoder\(\.\.\., precision='int8', calibration=texts\)", "as 'surprise-rerank index' does"),
    (r" \(token_encoder=load_encoder\(\)\)", ""),
    (r" \(token_encoder=load_encoder\(\) beside one that does not\)", ""),
    (r"token_encoder=load_encoder\(\) \(--token-model\)", "--token-model"),
    (r"\btoken_encoder=", "--token-model"),
    (r"IndexOptions\(tokens=True\)", "--tokens"),
    (r"IndexOptions\(tokens=False\)", "--no-tokens"),
    (_NO_PATH + r"passages=None" + _TO_ITS_END, "--no-passages"),
    (_NO_PATH + r"tokens=False" + _TO_ITS_END, "--no-tokens"),
    (_NO_PATH + r"tokens=True" + _TO_ITS_END, "--tokens"),
    (_NO_PATH + r"(precision|pooling|mode|device|quantization)=" + _VALUE, r"--\1 \2"),
    (_NO_PATH + r"min_surprise=" + _VALUE, r"--min-surprise \1"),
    (_NO_PATH + r"min_surprise(?!=)" + _TO_ITS_END, "--min-surprise"),
    (_NO_PATH + r"group_by=", "--group-by "),
    (r" \((model|config)=\)", ""),
    (r"attach it as it is with Collection\.attach", "search or enrich it as it is, without 'index'"),
)  # fmt: skip
_COMPILED = [(re.compile(said), shown) for said, shown in _PHRASES]


def in_options(message: str) -> str:
    """The message, with options and commands in place of functions and their arguments.

    >>> in_options("no column for the id; name it with Fields(id=...)")
    'no column for the id; name it with --id-field'
    >>> in_options("the index has pooling=3.5, asked for is pooling=2.0")
    'the index has --pooling 3.5, asked for is --pooling 2.0'
    """
    for said, shown in _COMPILED:
        message = said.sub(shown, message)
    return message
