"""From a Hugging Face folder to the folder of a built model."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft import _build as build_of_models
from camshaft._engine import Engine
from camshaft._errors import FileError, InvalidArgumentError
from camshaft._keywords import with_keywords_of
from camshaft._network import Network
from camshaft._options import BuildOptions
from camshaft.llm._caches import CROSS, Caches
from camshaft.llm._decoder import Decoder
from camshaft.llm._folder import (
    CHECKSUMS,
    ENCODER_ENGINE,
    RANKS,
    checksum_of,
    copy_adapters,
    copy_tokenizer,
    description_of,
    embedding_description,
    encoder_description,
    engine_names,
    grouped_products,
    made_folder,
    read_generation,
    write_description,
)
from camshaft.llm._lora import named_paths, read_adapter
from camshaft.llm._lora_inputs import LoraInputs, lora_choice
from camshaft.llm._network import Import, Task, network_of
from camshaft.llm._ranks import Ranks, check_ranks
from camshaft.llm._sentence_transformers import PoolingType, check_pooling_type
from camshaft.llm._speech_description import speech_of
from camshaft.llm._speech_encoder import SpeechEncoder
from camshaft.llm._text_encoder import prompts_profile, sample_prompts
from camshaft.llm._vision_description import vision_of
from camshaft.llm._vision_samples import sample_patches, tower_profile

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from camshaft._types import Path as AnyPath
    from camshaft._types import Profile, Progress
    from camshaft.llm._layers import ActivationType, WeightType

# Tokens and sequences of the steps that a GPU's kernels are measured for: decoding one, decoding many, prompts.
_TUNED_FOR = ((1, 1), (32, 32), (512, 4))
# The same of the steps that embeddings on a CPU are of.
_TUNED_FOR_PROMPTS = (256, 8)
_MOST_SOUNDS = 64  # of a run of an encoder
_MOST_TOKENS = 1 << 16  # of a step; there are no more sequences than these
# New tokens of the sequences in steps that their kernels are verified on.
_FURTHER_STEPS = ((1,), (150, *[1] * 12))


def network(
    folder: AnyPath,
    *,
    weights: WeightType | None = None,
    activations: ActivationType = "int8",
    cache: str | None = None,
    block_size: int | None = None,
    max_length: int | None = None,
    task: Task = "generate",
) -> Network:
    """The model of a Hugging Face folder as a network; arguments are build()'s, docs/llm.md has its inputs, and
    docs/llm_speech.md those of Whisper's decoder."""
    return network_of(
        folder,
        weights=weights,
        activations=activations,
        cache=cache,
        block_size=block_size,
        max_length=max_length,
        task=task,
    ).net


@with_keywords_of(BuildOptions)
def build(
    folder: AnyPath,
    output: AnyPath,
    *,
    weights: WeightType | None = None,
    activations: ActivationType = "int8",
    cache: str | None = None,
    block_size: int | None = None,
    max_length: int | None = None,
    task: Task = "generate",
    pooling_type: PoolingType | None = None,
    normalize: bool | None = None,
    tensor_parallel_size: int = 1,
    row_parallel: bool = False,
    enable_lora: bool | None = None,
    max_lora_rank: int | None = None,
    lora_dtype: str = "auto",
    progress: Progress | None = None,
    **options: Unpack[BuildOptions],
) -> Engine:
    """Builds the language model of a Hugging Face folder, and writes the folder `output`: model.engine, llm.json and the
    tokenizer's files; of Whisper, T5, and models that read pictures, encoder.engine beside them. Gives the decoder's engine, of
    several ranks the first one's.

    folder: with config.json, *.safetensors, and the tokenizer's files; or a .gguf file, which has these beside it.
    weights: what weights of products are stored as: "f32", "f16", "bf16", "int8" and "int4" in blocks of 32, or "stored", as
        the files have them. Without it f32, and "stored" of GGUF files.
    activations: what such weights of 4 and 8 bits are multiplied with on CPUs: "int8", rounded in blocks of 32, or "f32".
    cache: what keys and values of decoders are stored as: "f16" (without it), "f32", or in 8 bits, "int8" or "fp8" (E4M3), each head of each token
        with a scale in f32.
    block_size: tokens in a block of the cache; 16 without it.
    max_length: the longest sequence, in tokens; that of config.json where it is None.
    task: "generate", or "embed" for a model that gives embeddings of prompts, as encoders (BERT) do alone.
    pooling_type: whose hidden state an embedding is: the "last" token's, that of the first ("cls"), or the "mean" of all.
        Without it what the folder's modules.json (sentence-transformers) says, else "last" of decoders, "mean" of encoders.
    normalize: whether an embedding's length is 1. Without it what modules.json says, else true.
    tensor_parallel_size: how many ranks compute the model together, each with its part of the weights and of the cache, as
        docs/tensor_parallel.md says: model.rank0.engine, … instead of model.engine.
    row_parallel: products that read what others have computed in parts are cut by their inputs, where weights are floats, and
        their results summed: ranks meet twice a layer instead of four times, and round otherwise than one rank does.
    lora: adapters as PEFT writes them, "NAME=FOLDER" each, which are copied into `output`; the engine can update the products
        that they do.
    enable_lora: whether it can update all linear layers, for adapters that come later.
    max_lora_rank: the largest rank of an adapter; that of `lora` where it is None, else 16.
    lora_dtype: what their matrices are stored as, "f32", "f16" or "bf16"; "auto": f32 beside f32 weights, bf16 beside bf16
        ones, f16 beside others.
    options: of camshaft.build, but for `lora`.

    Raises what camshaft.build does: InvalidModelError and UnsupportedError name the field or the tensor."""
    source, target = Path(os.fspath(folder)), Path(os.fspath(output)).absolute()
    chosen: dict[str, Any] = {**options}
    if source.resolve() == target.resolve():
        raise InvalidArgumentError(f"{target}: the model cannot be written over what it is made of")
    ranks = check_ranks(tensor_parallel_size)
    if row_parallel and ranks == 1:
        raise InvalidArgumentError("row_parallel is for models in several ranks: give tensor_parallel_size, too")
    paths = named_paths(chosen.pop("lora", None) or ())
    adapters = [read_adapter(name, path) for name, path in paths.items()]
    is_on_gpu = str(chosen.get("device", "cpu")).startswith("cuda")
    if weights in ("f16", "bf16", "int8", "int4") and is_on_gpu:
        chosen.setdefault("bf16" if weights == "bf16" else "fp16", True)
    narrow = [name for name in ("fp16", "bf16") if is_on_gpu and chosen.get(name) is True]

    def made_for(rank: int) -> Import:
        return network_of(
            source,
            weights=weights,
            activations=activations,
            cache=cache,
            block_size=block_size,
            max_length=max_length,
            task=task,
            heads_type={"fp16": "f16", "bf16": "bf16"}[narrow[0]] if narrow else "f32",
            ranks=Ranks(rank, ranks, row_parallel),
            loras=lambda stored: lora_choice(adapters, enable_lora, max_lora_rank, lora_dtype, stored),
        )

    made_of = made_for(0)
    decoder = made_of.decoder
    generation = read_generation(made_of.folder)
    caches = made_of.caches
    description = description_of(decoder, made_of.config, generation, made_of.weights, caches.type, caches.block_size)
    description |= _pooling_of(made_of, task, pooling_type, normalize)
    if ranks > 1:
        description[RANKS] = ranks
    if made_of.loras is not None:
        description["lora"] = {"adapters": list(paths), **grouped_products(decoder)}
    with made_folder(target) as made:
        reads_images = made_of.vision is not None
        inputs, profiles = [sample_step(caches, loras=made_of.loras, reads_images=reads_images)], None
        if is_on_gpu:
            # What is fast for one token reads weights again and again for many: kernels differ, and each is verified.
            profiles = [
                _profile(*sizes, causal=decoder.family.causal, decoder=decoder if reads_images else None)
                for sizes in _TUNED_FOR
            ]
            inputs += [
                sample_step(caches, new=new, loras=made_of.loras, reads_images=reads_images) for new in _FURTHER_STEPS
            ]
        elif task == "embed":
            profiles = [_profile(*_TUNED_FOR_PROMPTS, causal=decoder.family.causal)]
        if made_of.vision is not None:
            tower_net, tower, processor = made_of.vision
            description["vision"] = vision_of(tower, processor)
            build_of_models.build(
                tower_net,
                made / ENCODER_ENGINE,
                profiles=[tower_profile(tower, processor, decoder.max_length)],
                inputs=sample_patches(tower),
                progress=progress,
                **_with_own_files(chosen, "encoder"),
            )
        if made_of.encoder is not None:
            encoder_net, encoder = made_of.encoder
            if isinstance(encoder, SpeechEncoder):
                description["speech"] = dataclasses.asdict(speech_of(encoder, decoder, made_of.config, generation))
                profile, samples = _encoder_profile(encoder, caches), sample_sounds(encoder, caches)
            else:
                description["encoder"] = encoder_description(decoder, made_of.config, generation)
                profile, samples = prompts_profile(), sample_prompts(encoder, caches)
            build_of_models.build(
                encoder_net,
                made / ENCODER_ENGINE,
                profiles=profile,
                inputs=samples,
                progress=progress,
                **_with_own_files(chosen, "encoder"),
            )
        engines = []
        for rank, name in enumerate(engine_names(ranks)):
            net = made_of.net if rank == 0 else made_for(rank).net
            given = chosen if ranks == 1 else _for_rank(chosen, rank, made)
            engines.append(
                build_of_models.build(net, made / name, profiles=profiles, inputs=inputs, progress=progress, **given)
            )
        if ranks > 1:
            description[CHECKSUMS] = {name: checksum_of(made / name) for name in engine_names(ranks)}
        (made / _RANKS_TIMES).unlink(missing_ok=True)
        engine = engines[0]
        try:
            copy_tokenizer(made_of.folder, made)
            copy_adapters(paths, made)
            write_description(made, description)
        except FileError:
            raise
        except OSError as error:
            raise FileError(f"{error.filename}: {error.strerror}") from None
    return engine


def _pooling_of(made_of: Import, task: Task, pooling_type: str | None, normalize: bool | None) -> dict[str, Any]:
    """What llm.json says of embeddings."""
    if task != "embed":
        for name, given in (("pooling_type", pooling_type), ("normalize", normalize)):
            if given is not None:
                raise InvalidArgumentError(f"{name} is for task='embed' (--task embed) alone")
        return {}
    if normalize is not None and not isinstance(normalize, bool):
        raise InvalidArgumentError(f"normalize is {normalize!r}; true and false are possible")
    known = made_of.modules
    usual = "last" if made_of.decoder.family.causal else "mean"
    chosen = check_pooling_type(known.pooling_type or usual if pooling_type is None else pooling_type)
    normalizes = normalize if normalize is not None else known.normalize is not False
    return embedding_description(made_of.decoder, chosen, normalizes)


def _profile(tokens: int, sequences: int, *, causal: bool, decoder: Decoder | None = None) -> Profile:
    """decoder: of a model that reads pictures."""

    def sizes(usual: int, least: int = 1) -> tuple[tuple[int], tuple[int], tuple[int]]:
        return (least,), (usual,), (_MOST_TOKENS,)

    made: Any = {"input_ids": sizes(tokens), "logits_indices": sizes(sequences, 0)}
    if decoder is not None:
        made["image_indices"] = sizes(0, 0)
        made["image_embeddings"] = (0, decoder.width), (0, decoder.width), (_MOST_TOKENS, decoder.width)
    if decoder is not None and decoder.has_mrope:
        made["positions"] = (1, 3), (tokens, 3), (_MOST_TOKENS, 3)
    if causal:
        return {**made, "past_seqlens": sizes(sequences)}
    boundaries = ((2,), (sequences + 1,), (_MOST_TOKENS + 1,))
    return {**made, "cumulative_sequence_length": boundaries}


def sample_step(
    caches: Caches,
    seed: int = 1,
    new: Sequence[int] = (5, 1, 1),
    *,
    loras: LoraInputs | None = None,
    reads_images: bool = False,
) -> dict[str, Any]:
    """Inputs to verify on: so many `new` tokens of each sequence, of which the first one begins and the others have a past
    (where there is but one, it has), and a token of padding. Of an encoder all begin."""
    import numpy

    random = numpy.random.default_rng(seed)
    decoder, block_size = caches.decoder, caches.block_size
    longest, count = decoder.max_length, len(new)
    tokens = numpy.minimum(numpy.asarray(new), longest)
    causal = decoder.family.causal
    pasts = ([0, block_size + 2, 3] if count > 1 else [block_size + 2]) if causal else [0] * count
    past = numpy.minimum([pasts[i] if i < len(pasts) else 5 * i for i in range(count)], longest - tokens)
    starts = numpy.concatenate([[0], numpy.cumsum(tokens)])
    width = int(-(-(tokens + past).max() // block_size))
    blocks = 1 + count * width
    positions = numpy.concatenate([past[i] + numpy.arange(tokens[i]) for i in range(count)] + [[0]])
    step: dict[str, Any] = {
        "input_ids": random.integers(0, decoder.vocabulary, len(positions)).astype(numpy.int32),
        "positions": positions.astype(numpy.int32),
        "cumulative_sequence_length": starts.astype(numpy.int32),
        "logits_indices": (starts[1:] - 1).astype(numpy.int32),
    }
    if not causal:
        return step
    if decoder.has_mrope:
        step["positions"] = positions.astype(numpy.int32)[:, None] // [1, 2, 3]
        step["positions"] = step["positions"].astype(numpy.int32)
    if reads_images:  # the first tokens are a picture's
        step["image_indices"] = numpy.arange(max(len(positions) // 3, 1), dtype=numpy.int32)
        sizes = len(step["image_indices"]), decoder.width
        step["image_embeddings"] = random.standard_normal(sizes, numpy.float32)
    if loras is not None:
        step |= loras.samples(len(positions), random)
    step["past_seqlens"] = past.astype(numpy.int32)
    step["block_table"] = (random.permutation(blocks - 1) + 1).reshape(count, width).astype(numpy.int32)
    step |= caches.samples("", blocks, random)
    if decoder.cross_keys:
        # Of different numbers of keys, so that blocks are left over behind some.
        most = caches.blocks_for(decoder.cross_keys)
        table = random.permutation(count * most).reshape(count, most)
        lengths = numpy.maximum(decoder.cross_keys - numpy.arange(count) * block_size, 1)
        step |= {"cross_seqlens": lengths.astype(numpy.int32), "cross_block_table": table.astype(numpy.int32)}
        step |= caches.samples(CROSS, count * most, random)
    return step


_VERIFIED_STATES = 48  # of a sound: the reference takes some seconds for a large model's


def sample_sounds(encoder: SpeechEncoder, caches: Caches, seed: int = 1) -> dict[str, Any]:
    """Inputs to verify an encoder on: two short sounds, a tone in noise and one that fades away."""
    import numpy

    random = numpy.random.default_rng(seed)
    features = encoder.features
    states = min(_VERIFIED_STATES, encoder.stack.max_length)
    samples = max(2 * features.hop * states, 2 * features.window)
    samples -= samples % (2 * features.hop)
    times = numpy.arange(samples) / samples
    sounds = 0.1 * random.standard_normal((2, samples)) + 0.5 * numpy.sin(2 * numpy.pi * 40 * times)
    sounds[1] *= numpy.exp(-5 * times)
    width = caches.blocks_for(samples // (2 * features.hop))
    made: dict[str, Any] = {
        "audio": sounds.astype(numpy.float32),
        "block_table": random.permutation(2 * width + 1)[: 2 * width].reshape(2, width).astype(numpy.int32),
    }
    return made | caches.samples(CROSS, 2 * width + 1, random)


def _encoder_profile(encoder: SpeechEncoder, caches: Caches) -> Profile:
    """Whole windows, one at a time most often."""
    least, most = 2 * encoder.features.hop, encoder.features.samples
    width = caches.blocks_for(encoder.stack.max_length)
    return {
        "audio": ((1, max(least, encoder.features.window)), (1, most), (_MOST_SOUNDS, most)),
        "block_table": ((1, 1), (1, width), (_MOST_SOUNDS, width)),
    }


_RANKS_TIMES = ".times"


def _for_rank(options: dict[str, Any], rank: int, folder: Path) -> dict[str, Any]:
    """Files of one engine have names of their own. What was measured for one rank counts for all: equal layers are to be
    computed by the same kernels, so that what all ranks compute is equal on all of them."""
    made = _with_own_files(options, f"rank{rank}")
    if not made.get("timing_cache"):
        made["timing_cache"] = folder / _RANKS_TIMES
    return made


def _with_own_files(options: dict[str, Any], name: str) -> dict[str, Any]:
    """Files that a build writes or takes its choices from are of one engine."""
    made = dict(options)
    for kind in ("lock", "write_lock"):
        if made.get(kind):
            made[kind] = f"{os.fspath(made[kind])}.{name}"
    return made
