"""A real sentence-transformers model of one layer, untrained, that reads twelve tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast


def tiny_bert(folder: Path, words: Sequence[str]) -> SentenceTransformer:
    """The model for these words, always with the same weights; its parts are written to the folder."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(pieces),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=16,
        )
        BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    model = SentenceTransformer(modules=[Transformer(str(folder)), Pooling(16)], device="cpu")
    model.max_seq_length = 12
    return model
