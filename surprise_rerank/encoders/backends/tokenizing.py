"""The fast tokenizer of a model without transformers, whose import takes longer than a search."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

FILE = "tokenizer.json"


class PlainTokenizer:
    """What `TransformerEncoder` and `WholeTexts` ask of a tokenizer of transformers, by the library below it.

    Args:
        folder: with its file.
        names: of the lists that texts become: `input_ids`, `attention_mask`, `token_type_ids`.
        padding: `padding_side`, `pad_token_id`, `pad_token_type_id`.
        split_special_tokens: whether a special token's spelling in a text is read like any other text.

    Attributes:
        is_fast: as of transformers' tokenizers: they tell where tokens lie.
    """

    is_fast = True

    def __init__(
        self, folder: Path, names: Sequence[str], padding: dict[str, Any], *, split_special_tokens: bool
    ) -> None:
        self._whole = Tokenizer.from_file(str(folder / FILE))
        self._whole.no_padding()
        self._whole.no_truncation()
        self._whole.encode_special_tokens = split_special_tokens
        self._cut: dict[int, Tokenizer] = {}
        self._names = list(names)
        self.padding_side: str = padding["padding_side"]
        self.pad_token_id: int = padding["pad_token_id"]
        self.pad_token_type_id: int = padding["pad_token_type_id"]

    def __call__(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool = True,
        truncation: bool = False,
        max_length: int | None = None,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        **_: Any,
    ) -> dict[str, list[Any]]:
        """The lists of n texts, as transformers gives them."""
        tokenizer = self._truncating(max_length) if truncation and max_length else self._whole
        found = tokenizer.encode_batch(list(texts), add_special_tokens=add_special_tokens)
        columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        asked = {name: columns[name] for name in self._names}
        if return_special_tokens_mask:
            asked["special_tokens_mask"] = "special_tokens_mask"
        if return_offsets_mapping:
            asked["offset_mapping"] = "offsets"
        return {name: [getattr(own, column) for own in found] for name, column in asked.items()}

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces of ids."""
        return [self._whole.id_to_token(i) or "" for i in ids]

    def _truncating(self, longest: int) -> Tokenizer:
        """A copy, because truncation is a setting, and other threads may be at work without it."""
        if longest not in self._cut:
            made = copy.deepcopy(self._whole)
            made.enable_truncation(longest)
            self._cut[longest] = made
        return self._cut[longest]
