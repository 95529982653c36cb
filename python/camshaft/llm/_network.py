"""The model of a Hugging Face folder or a GGUF file as a network, with the inputs and outputs that docs/llm.md lists, and
the encoder beside it, where it sees one (docs/llm_speech.md)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from camshaft._errors import FileError, InvalidArgumentError, UnsupportedError
from camshaft._network import Network
from camshaft._values import Value
from camshaft.llm._caches import CACHE_TYPES, CROSS, Caches
from camshaft.llm._decoder import Decoder, decoder_of, read_config, text_model_of
from camshaft.llm._experts import experts_of
from camshaft.llm._fields import Fields
from camshaft.llm._gguf_model import GgufModel
from camshaft.llm._image_processor import ImageProcessor, preprocessor_fields, read_processor
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
from camshaft.llm._ranks import Ranks
from camshaft.llm._safetensors import SafetensorsFolder
from camshaft.llm._sentence_transformers import Modules, read_modules
from camshaft.llm._speech_encoder import SpeechEncoder, add_encoder, encoder_of
from camshaft.llm._text_encoder import add_text_encoder, text_encoder_of
from camshaft.llm._vision_config import VISION_MODELS, VisionTower, text_config, vision_tower_of
from camshaft.llm._vision_tower import add_llava_tower, add_qwen_tower, read_normalization
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
    encoder: tuple[Network, SpeechEncoder | Decoder] | None  # of a decoder with cross attention
    vision: tuple[Network, VisionTower, ImageProcessor] | None  # of one that reads pictures
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
    ranks: Ranks = Ranks(),
    loras: Callable[[WeightType], LoraChoice | None] = lambda weights: None,
) -> Import:
    """heads_type: of the queries, keys and values of encoders. ranks: which of several ranks it is of. loras: what there is
    to be of adapters."""
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
    whole = read_config(path) if gguf is None else gguf.config
    reads_images = gguf is None and whole.raw("model_type", default="") in VISION_MODELS
    if reads_images and task != "generate":
        raise UnsupportedError(f"{whole.where}: a model that reads pictures writes text; build it with task='generate'")
    if reads_images and ranks.size > 1:
        raise UnsupportedError(f"tensor_parallel_size is {ranks.size}: models that read pictures run in one rank")
    config = text_config(whole) if reads_images else text_model_of(whole)
    decoder = decoder_of(config, max_length, task, is_part=reads_images)
    if max_length is None and modules.max_length is not None and modules.max_length < decoder.max_length:
        decoder = decoder_of(config, modules.max_length, task)
    if decoder.cross_keys and task != "generate":
        raise UnsupportedError(f"{config.where}: a model with an encoder writes text; build it with task='generate'")
    for name, given in (("cache", cache), ("block_size", block_size)):
        if given is not None and not decoder.family.causal:
            raise InvalidArgumentError(
                f"{name} is of keys and values that decoders keep: {config.where} is of an encoder, which keeps none"
            )
    source = _source_in(path, config) if gguf is None else gguf
    weight_type = weights or ("f32" if isinstance(source, SafetensorsFolder) else "stored")
    if decoder.relative_bias is not None:  # whose configurations call all embeddings tied
        decoder = replace(decoder, tied="lm_head.weight" not in source.entries)
    found = Weights(source, decoder, str(path))
    caches = Caches(cache_type, size, ranks.decoder_of(decoder))
    choice = loras(weight_type)
    if choice is not None and (task != "generate" or decoder.cross_keys or reads_images or ranks.size > 1):
        raise UnsupportedError(
            f"{config.where}: adapters are of decoders that write text in one rank, not of embeddings, speech and pictures"
        )
    net = Network(decoder.model_type)
    parts = Parts(net, decoder, found, weight_type, activations, heads_type, ranks)
    _add_model(net, decoder, parts, caches, task, reads_images, choice)
    if parts.loras is not None:
        parts.loras.check()
    beside = None
    vision = None
    if reads_images:
        vision = _vision_of(whole, decoder, path, found, source, weight_type, activations, heads_type)
    if decoder.cross_keys:
        encoder: SpeechEncoder | Decoder = (
            encoder_of(config, path) if decoder.relative_bias is None else text_encoder_of(config, decoder)
        )
        stack = encoder if isinstance(encoder, Decoder) else encoder.stack
        encoder_net = Network(f"{decoder.model_type} encoder")
        of_encoder = Parts(
            encoder_net, stack, Weights(source, stack, str(path), found), weight_type, activations, heads_type
        )
        of_decoder = Parts(encoder_net, decoder, found, weight_type, activations)
        if isinstance(encoder, Decoder):
            add_text_encoder(of_encoder, of_decoder, caches)
        else:
            add_encoder(of_encoder, of_decoder, encoder, caches)
        beside = encoder_net, encoder
    found.check_all_read(reads_head=task == "generate")
    own_folder = path.parent if is_gguf else path
    return Import(net, decoder, caches, beside, vision, config, own_folder, weight_type, modules, parts.loras)


def _vision_of(
    config: Fields,
    decoder: Decoder,
    folder: Path,
    found: Weights,
    source: Source,
    weight_type: WeightType,
    activations: ActivationType,
    heads_type: str,
) -> tuple[Network, VisionTower, ImageProcessor]:
    """found: the decoder's weights."""
    tower = vision_tower_of(config, decoder)
    fields = preprocessor_fields(folder)
    processor = read_processor(fields, tower)
    net = Network(f"{tower.model_type} tower")
    # A picture has many rows, and errors in them reach all of the text: 8 bits where the decoder's products have 4.
    kind: WeightType = "int8" if weight_type == "int4" else weight_type

    def parts_of(stack: Decoder) -> Parts:
        return Parts(net, stack, Weights(source, stack, str(folder), found), kind, activations, heads_type)

    parts, normalization = parts_of(tower.stack), read_normalization(fields, tower)
    if tower.projector is None:
        add_qwen_tower(parts, tower, normalization, decoder.width)
    else:
        add_llava_tower(parts, parts_of(tower.projector), tower, normalization)
        for beginning in (
            "post_layernorm.",
            "head.",
            *(f"encoder.layers.{index}." for index in range(len(tower.stack.layers), tower.depth)),
        ):
            parts.weights.leave_out(beginning)
    return net, tower, processor


def _source_in(folder: Path, config: Fields) -> Source:
    files = SafetensorsFolder(folder)
    if not config.has("quantization_config"):
        return files
    return QuantizedFolder(files, config.within("quantization_config"), str(folder))


def _add_model(
    net: Network,
    decoder: Decoder,
    parts: Parts,
    memory: Caches,
    task: Task,
    reads_images: bool,
    loras: LoraChoice | None,
) -> None:
    ids = net.input("input_ids", "i32", ["tokens"])
    positions = net.input("positions", "i32", ["tokens", 3] if decoder.has_mrope else ["tokens"])
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
    step = Step(starts, angles, past, table, offsets, cross_lengths, cross_table, parts.relative_bias())
    x, head = parts.embedding(ids, decoder.embedding_width)
    if decoder.family.scales_embedding:
        x = x * decoder.width**0.5
    if reads_images:  # in place: of no rows it costs nothing
        rows = net.input("image_embeddings", "f32", ["image_rows", decoder.width])
        places = net.Cast(net.input("image_indices", "i32", ["image_rows"]), to="i64")
        x = net.ScatterND(x, net.Unsqueeze(places, [-1]), rows)
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
    if decoder.head_scale != 1:
        x = x * decoder.head_scale
    logits = _logits(parts, x, head)
    net.output(logits, "logits")
    likeliest = net.ArgMax(logits, axis=-1, keepdims=1)
    net.output(net.Cast(net.Squeeze(likeliest, [-1]), to="i32"), "likeliest")  # greedy decoding reads nothing else …
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
