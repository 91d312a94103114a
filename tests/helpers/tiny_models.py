"""Real models of one layer, untrained: of a vector, and of several as three libraries save theirs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.base.modules.dense import Dense
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Pooling
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


DIMENSION = 8  # of the token vectors
SKIPPED = [".", ":"]


def _backbone(folder: Path, words: Sequence[str]) -> BertModel:
    return backbone(folder, ["[unused0]", "[unused1]", *words], max_position_embeddings=48)


def _projection() -> torch.Tensor:
    return torch.randn(DIMENSION, HIDDEN, generator=torch.Generator().manual_seed(1))


def native(
    folder: Path, words: Sequence[str], expansion: dict[str, object] | None = None, document_length: int = 16
) -> MultiVectorEncoder:
    """A model of sentence-transformers' own kind, saved to `folder / "model"`."""
    _backbone(folder / "parts", words)
    transformer = Transformer(
        str(folder / "parts"), document_length=document_length, query_expansion=expansion
    )
    dense = Dense(
        HIDDEN,
        DIMENSION,
        bias=False,
        activation_function=torch.nn.Identity(),
        init_weight=_projection(),
        module_input_name="token_embeddings",
    )
    mask, unit = MultiVectorMask(skiplist_words=SKIPPED), Normalize(module_input_name="token_embeddings")
    model = MultiVectorEncoder(
        modules=[transformer, dense, mask, unit],
        prompts={"query": "query : ", "document": "passage : "},
        device="cpu",
    )
    model.save_pretrained(str(folder / "model"))
    return model


def pylate(folder: Path, words: Sequence[str]) -> Path:
    """A checkpoint as PyLate 1 saves it: two modules, the rest in its settings."""
    _backbone(folder, words)
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(
        json.dumps({"max_seq_length": 32, "do_lower_case": False})
    )
    settings = {
        "model_type": "ColBERT",
        "prompts": {},
        "query_prefix": "[unused0]",
        "document_prefix": "[unused1]",
        "query_length": 12,
        "document_length": 16,
        "attend_to_expansion_tokens": False,
        "skiplist_words": SKIPPED,
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    (folder / "1_Dense").mkdir()
    shape = {"in_features": HIDDEN, "out_features": DIMENSION, "bias": False}
    activation = {"activation_function": "torch.nn.modules.linear.Identity"}
    (folder / "1_Dense" / "config.json").write_text(json.dumps({**shape, **activation}))
    save_file({"linear.weight": _projection()}, str(folder / "1_Dense" / "model.safetensors"))
    return folder


def stanford(folder: Path, words: Sequence[str]) -> Path:
    """A checkpoint as Stanford's ColBERT saves it: backbone and projection in one file."""
    model = _backbone(folder, words)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["HF_ColBERT"]}))
    weights = {f"bert.{name}": value.contiguous() for name, value in model.state_dict().items()}
    save_file(
        {**weights, "linear.weight": _projection()}, str(folder / "model.safetensors"), {"format": "pt"}
    )
    metadata = {
        "query_maxlen": 12,
        "doc_maxlen": 16,
        "attend_to_mask_tokens": False,
        "query_token_id": "[unused0]",
        "doc_token_id": "[unused1]",
        "mask_punctuation": True,
    }
    (folder / "artifact.metadata").write_text(json.dumps(metadata))
    return folder
