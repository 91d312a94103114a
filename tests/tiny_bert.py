"""Real models of one layer, untrained, and an encoder of one that reads twelve tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

HIDDEN = 16


def backbone(folder: Path, words: Sequence[str], kind: Any = BertModel, **config: Any) -> Any:
    """A BERT for these words, always of the same weights, written to a folder with its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    sizes: dict[str, Any] = {
        "hidden_size": HIDDEN,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    sizes |= {"max_position_embeddings": 32, **config}
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        model = kind(BertConfig(vocab_size=len(pieces), **sizes))
    model.save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    return model


def tiny_bert(folder: Path, words: Sequence[str]) -> SentenceTransformer:
    """The model for these words, always with the same weights; its parts are written to the folder."""
    backbone(folder, words, max_position_embeddings=16)
    model = SentenceTransformer(modules=[Transformer(str(folder)), Pooling(HIDDEN)], device="cpu")
    model.max_seq_length = 12
    return model
