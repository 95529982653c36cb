"""The model of a Hugging Face folder or a GGUF file as a network, with the inputs and outputs that docs/llm.md lists, and
the encoder beside it, where it sees one (docs/llm_speech.md)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from camshaft._errors import FileError, InvalidArgumentError, UnsupportedError
from camshaft._network import Network
from camshaft._values import Value
from camshaft.llm._caches import CACHE_TYPES, CROSS, Caches
from camshaft.llm._decoder import Decoder, decoder_of, read_config
from camshaft.llm._experts import experts_of
from camshaft.llm._fields import Fields
from camshaft.llm._gguf_model import GgufModel
from camshaft.llm._layers import (
    ActivationType,
    Head,
    Parts,
    Step,
    WeightType,
    check_activation_type,
    check_weight_type,
)
from camshaft.llm._lora_inputs import IDS, LoraChoice, LoraInputs
from camshaft.llm._quantized import QuantizedFolder
from camshaft.llm._safetensors import SafetensorsFolder
from camshaft.llm._sentence_transformers import Modules, read_modules
from camshaft.llm._speech_encoder import SpeechEncoder, add_encoder, encoder_of
from camshaft.llm._weights import Source, Weights

if TYPE_CHECKING:
    from camshaft._types import Path as AnyPath

Task = Literal["generate", "embed"]
TASKS = ("generate", "embed")
_BLOCK_SIZE = 16  # tokens


class Import(NamedTuple):
    """The networks of a model, and what they were made by."""

    net: Network
    decoder: Decoder
    caches: Caches
    encoder: tuple[Network, SpeechEncoder] | None  # of a decoder with cross attention
    config: Fields
    folder: Path  # where the tokenizer's files are
    weights: WeightType
    modules: Modules
    loras: LoraInputs | None = None


def network_of(
    model: AnyPath,
    *,
    weights: WeightType | None = None,
    activations: ActivationType = "int8",
    cache: str | None = None,
    block_size: int | None = None,
    max_length: int | None = None,
    task: Task = "generate",
    heads_type: str = "f32",
    loras: Callable[[WeightType], LoraChoice | None] = lambda weights: None,
) -> Import:
    """heads_type: of the queries, keys and values of encoders. loras: what there is to be of adapters."""
    path = Path(os.fspath(model))
    if task not in TASKS:
        raise InvalidArgumentError(f"task is {task!r}; {' and '.join(TASKS)} are possible")
    cache_type, size = CACHE_TYPES[0] if cache is None else cache, _BLOCK_SIZE if block_size is None else block_size
    if cache_type not in CACHE_TYPES:
        raise InvalidArgumentError(f"cache is {cache!r}; {', '.join(CACHE_TYPES)} are possible")
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 1024:
        raise InvalidArgumentError(f"block_size is {block_size!r}; 1 to 1024 tokens are possible")
    check_activation_type(activations)
    if weights is not None:
        check_weight_type(weights)
    is_gguf = path.suffix == ".gguf"
    if not is_gguf and not path.is_dir():
        raise FileError(f"{path}: no folder with a model, and no .gguf file")
    gguf = GgufModel(path) if is_gguf else None
    modules = read_modules(path) if task == "embed" and gguf is None else Modules(path)
    path = modules.folder
    config = read_config(path) if gguf is None else gguf.config
    decoder = decoder_of(config, max_length, task)
    if max_length is None and modules.max_length is not None and modules.max_length < decoder.max_length:
        decoder = decoder_of(config, modules.max_length, task)
    if decoder.cross_keys and task != "generate":
        raise UnsupportedError(f"{config.where}: a model of speech writes text; build it with task='generate'")
    for name, given in (("cache", cache), ("block_size", block_size)):
        if given is not None and not decoder.family.causal:
            raise InvalidArgumentError(
                f"{name} is of keys and values that decoders keep: {config.where} is of an encoder, which keeps none"
            )
    source = _source_in(path, config) if gguf is None else gguf
    weight_type = weights or ("f32" if isinstance(source, SafetensorsFolder) else "stored")
    found = Weights(source, decoder, str(path))
    caches = Caches(cache_type, size, decoder)
    choice = loras(weight_type)
    if choice is not None and (task != "generate" or decoder.cross_keys):
        raise UnsupportedError(
            f"{config.where}: adapters are of decoders that write text, not of embeddings and speech"
        )
    net = Network(decoder.model_type)
    parts = Parts(net, decoder, found, weight_type, activations, heads_type)
    _add_model(net, decoder, parts, caches, task, choice)
    if parts.loras is not None:
        parts.loras.check()
    beside = None
    if decoder.cross_keys:
        encoder, encoder_net = encoder_of(config, path), Network(f"{decoder.model_type} encoder")
        add_encoder(
            Parts(
                encoder_net, encoder.stack, Weights(source, encoder.stack, str(path), found), weight_type, activations
            ),
            Parts(encoder_net, decoder, found, weight_type, activations),
            encoder,
            caches,
        )
        beside = encoder_net, encoder
    found.check_all_read(reads_head=task == "generate")
    return Import(
        net, decoder, caches, beside, config, path.parent if is_gguf else path, weight_type, modules, parts.loras
    )


def _source_in(folder: Path, config: Fields) -> Source:
    files = SafetensorsFolder(folder)
    if not config.has("quantization_config"):
        return files
    return QuantizedFolder(files, config.within("quantization_config"), str(folder))


def _add_model(
    net: Network, decoder: Decoder, parts: Parts, memory: Caches, task: Task, loras: LoraChoice | None
) -> None:
    ids, positions = net.input("input_ids", "i32", ["tokens"]), net.input("positions", "i32", ["tokens"])
    starts = net.input("cumulative_sequence_length", "i32", ["boundaries"])
    causal = decoder.family.causal
    past = net.input("past_seqlens", "i32", ["sequences"]) if causal else None
    table = net.input("block_table", "i32", ["sequences", "table_width"]) if causal else None
    wanted = net.input("logits_indices", "i32", ["rows"])
    if loras is not None:
        parts.loras = LoraInputs(net, loras, net.input(IDS, "i32", ["tokens"]), wanted)
    caches = [memory.inputs(net, "", "blocks", i) if causal else () for i in range(len(decoder.layers))]
    cross_caches: list[tuple[Value, ...]] = []
    cross_lengths, cross_table = None, None
    if decoder.cross_keys:
        cross_lengths = net.input("cross_seqlens", "i32", ["sequences"])
        cross_table = net.input("cross_block_table", "i32", ["sequences", memory.blocks_for(decoder.cross_keys)])
        cross_caches = [memory.inputs(net, CROSS, "cross_blocks", i) for i in range(len(decoder.layers))]

    ropes = dict.fromkeys(layer.rope for layer in decoder.layers if layer.rope is not None)  # in one order each time
    angles = {rope: parts.angles(rope, positions) for rope in ropes}
    offsets = None if causal else _offsets(net, starts, decoder.max_length)
    step = Step(starts, angles, past, table, offsets, cross_lengths, cross_table)
    x, head = parts.embedding(ids, decoder.embedding_width)
    if decoder.family.scales_embedding:
        x = x * decoder.width**0.5
    if "project_in" in decoder.family.names:
        x = parts.linear(x, "project_in", None, decoder.embedding_width, decoder.width)
    if decoder.token_types:
        x = x + parts.first_token_type()
    if decoder.learned_positions:
        x = x + parts.positions(positions)
    if "embedding_norm" in decoder.family.names:
        x = parts.norm(x, "embedding_norm", None, decoder.width)
    after = []
    for index in range(len(decoder.layers)):
        x, new = _layer(parts, x, index, step, caches[index], cross_caches[index] if cross_caches else ())
        after.append(new)

    x = net.Gather(x, wanted)
    if "final_norm" in decoder.family.names:
        x = parts.norm(x, "final_norm", None, decoder.width)
    if "project_out" in decoder.family.names:
        x = parts.linear(x, "project_out", None, decoder.width, decoder.embedding_width, lora_ids=parts.ids_of_rows())
    if task == "embed":
        net.output(x, "hidden_states")
        _cache_outputs(net, memory, after)
        return
    logits = _logits(parts, x, head)
    net.output(logits, "logits")
    likeliest = net.ArgMax(logits, axis=-1, keepdims=1)
    net.output(net.Squeeze(likeliest, [-1]), "likeliest")  # greedy decoding reads nothing else …
    _cache_outputs(net, memory, after)
    net.output(net.Squeeze(net.GatherElements(logits, likeliest, axis=-1), [-1]), "largest")  # … but for this number


def _cache_outputs(net: Network, memory: Caches, after: list[tuple[Value, ...]]) -> None:
    for index, new in enumerate(after):
        for kind, value in zip(memory.kinds, new):
            net.output(value, f"{kind}_out.{index}")


def _offsets(net: Network, starts: Value, longest: int) -> Value:
    """PackedMultiHeadAttention's token_offset, [sequences, longest], which says how many sequences there are, and how long
    one may be; what it holds is for operators with padding."""
    import numpy

    sizes = net.Concat(net.Shape(starts) - 1, [longest], axis=0)
    return net.Expand(numpy.zeros((1, 1), numpy.int32), sizes)


def _layer(
    parts: Parts, x: Value, index: int, step: Step, caches: tuple[Value, ...], cross_caches: tuple[Value, ...]
) -> tuple[Value, tuple[Value, ...]]:
    decoder, names = parts.decoder, parts.decoder.family.names
    before, layer = decoder.family.norm_before, decoder.layers[index]

    def normed(y: Value, role: str) -> Value:
        return parts.norm(y, role, index, decoder.width) if role in names else y

    def mlp(y: Value) -> Value:
        return parts.mlp(y, index) if layer.experts is None else experts_of(parts, y, index, layer.experts)

    read = normed(x, "attention_norm") if before else x
    y, new = parts.attention(read, index, layer, step, caches)
    if decoder.family.parallel:
        return x + y + mlp(normed(x, "mlp_norm") if "mlp_norm" in names else read), new
    x = x + normed(y, "attention_output_norm")
    if cross_caches:
        x = x + parts.cross_attention(normed(x, "cross_norm"), index, step, cross_caches)
    if not before:
        x = normed(x, "attention_norm")
        return normed(x + mlp(x), "mlp_norm"), new
    return x + normed(mlp(normed(x, "mlp_norm")), "mlp_output_norm"), new


def _logits(parts: Parts, x: Value, head: Head) -> Value:
    decoder, net = parts.decoder, parts.net
    if not decoder.tied:
        logits = parts.linear(
            x, "head", None, decoder.embedding_width, decoder.vocabulary, lora_ids=parts.ids_of_rows()
        )
    else:
        logits = parts.tied_head(x, head)
    if decoder.logits_softcap:
        logits = net.Tanh(logits / decoder.logits_softcap) * decoder.logits_softcap
    return logits
