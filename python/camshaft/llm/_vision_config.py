"""What a tower of vision before a decoder is: read from a Hugging Face folder's config.json, with every field checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from camshaft._errors import UnsupportedError
from camshaft.llm._decoder import Decoder, Layer
from camshaft.llm._families import CLIP_VISION, PROJECTOR, QWEN2_5_VISION, QWEN2_VISION, SIGLIP_VISION, Family, has_bias
from camshaft.llm._fields import Fields
from camshaft.llm._rope import Rope

VISION_MODELS = ("llava", "llava_next", "qwen2_vl", "qwen2_5_vl")
_CHANNELS = 3
# What configurations of LLaVA leave out, as Transformers saves what differs from its own defaults alone.
_USUAL_TEXT: dict[str, dict[str, Any]] = {
    "llama": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "hidden_act": "silu",
        "vocab_size": 32000,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 2048,
    },
    "mistral": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_act": "silu",
        "vocab_size": 32000,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    "qwen2": {
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "hidden_act": "silu",
        "vocab_size": 151936,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 32768,
        "use_sliding_window": False,
    },
}
_USUAL_CLIP = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 224,
    "patch_size": 32,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
}
_USUAL_SIGLIP = {**_USUAL_CLIP, "patch_size": 16, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}
_USUAL_QWEN2 = {
    "depth": 32,
    "embed_dim": 1280,
    "hidden_size": 3584,
    "hidden_act": "quick_gelu",
    "mlp_ratio": 4,
    "num_heads": 16,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
_USUAL_QWEN2_5 = {
    "depth": 32,
    "hidden_size": 3584,
    "hidden_act": "silu",
    "intermediate_size": 3420,
    "num_heads": 16,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 112,
    "out_hidden_size": 3584,
    "fullatt_block_indexes": [7, 15, 23, 31],
}


@dataclass(frozen=True)
class VisionTower:
    """What turns a picture into rows of the decoder's width."""

    model_type: str  # of VISION_MODELS
    image_token_id: int  # of the placeholders
    placeholder_ids: tuple[int, ...]  # of a picture in a text: the token, and what stands around it
    stack: Decoder  # its layers, which are made as a decoder's are
    projector: Decoder | None  # LLaVA's; Qwen merges patches within the tower
    depth: int  # layers that the file has: those behind the last feature are not read
    patch_size: int
    temporal_patch_size: int = 1  # pictures of a film that a patch is of: the same one again
    merge_size: int = 1  # patches of a row, across and down
    image_size: int = 0  # of both sides; 0: any
    features: tuple[int, ...] = ()  # LLaVA: whose layers' results are the rows; 0: what the first one reads
    keeps_class: bool = False  # LLaVA: the rows begin with that of the whole picture
    window: int = 0  # patches of a side, which most layers see no further than; 0: all see all
    full_layers: frozenset[int] = frozenset()  # with windows: those that see all
    grid_pinpoints: tuple[tuple[int, int], ...] = ()  # LLaVA-NeXT: sizes that a picture is cut into tiles of

    @property
    def grid(self) -> int:
        """Patches of a side, of pictures of one size."""
        return self.image_size // self.patch_size


def text_config(config: Fields) -> Fields:
    """Of the decoder, within that of the whole model."""
    kind = config.text("model_type")
    flat = {name: value for name, value in config.values.items() if name not in ("text_config", "vision_config")}
    text = config.within("text_config") if config.has("text_config") else Fields(flat, config.where)
    tied = any(fields.flag("tie_word_embeddings", default=False) for fields in (config, text))
    around = {
        name: config.values[name]
        for name in ("bos_token_id", "eos_token_id", "pad_token_id", "quantization_config")
        if config.has(name)
    }
    if kind in ("qwen2_vl", "qwen2_5_vl"):
        usual: dict[str, Any] = {"use_sliding_window": False}
        given = {**text.values, "model_type": "qwen2_vl"}
    else:
        name = text.text("model_type", default="llama")
        if name not in _USUAL_TEXT:
            raise UnsupportedError(
                f"{text.where}: field 'model_type' is '{name}'; {', '.join(_USUAL_TEXT)} are supported behind a tower"
            )
        usual, given = _USUAL_TEXT[name], {"model_type": name, **text.values}
    known = {name: value for name, value in given.items() if value is not None}
    return Fields({**usual, **around, **known, "tie_word_embeddings": tied}, text.where)


def vision_tower_of(config: Fields, decoder: Decoder) -> VisionTower:
    """config: of the whole model; decoder: which is to see the rows."""
    kind = config.text("model_type")
    vision = config.within("vision_config") if config.has("vision_config") else Fields({}, config.where)
    make = _qwen if kind in ("qwen2_vl", "qwen2_5_vl") else _llava
    made = make(kind, config, vision, decoder)
    if made.image_token_id >= decoder.vocabulary:
        config.wrong(
            ("image_token_id", "image_token_index"), f"one of {decoder.vocabulary} tokens", made.image_token_id
        )
    return made


def _llava(kind: str, config: Fields, vision: Fields, decoder: Decoder) -> VisionTower:
    model = vision.text("model_type", default="clip_vision_model")
    families = {"clip_vision_model": (CLIP_VISION, _USUAL_CLIP), "siglip_vision_model": (SIGLIP_VISION, _USUAL_SIGLIP)}
    if model not in families:
        raise UnsupportedError(f"{vision.where}: model_type '{model}' is not supported; {', '.join(families)} are")
    family, usual = families[model]
    if not vision.has("model_type") and not vision.values:  # LLaVA's own, which is larger than CLIP's
        usual = {**usual, "hidden_size": 1024, "intermediate_size": 4096, "patch_size": 14, "image_size": 336}
        usual |= {"num_hidden_layers": 24, "num_attention_heads": 16}
    fields = _with_usual(vision, usual)
    _check_channels(fields, "num_channels")
    image_size, patch = fields.integer("image_size", high=1 << 12), fields.integer("patch_size", high=1 << 10)
    if image_size < patch:
        fields.wrong(("image_size",), f"a size of one patch ({patch}) or more", image_size)
    layers = fields.integer("num_hidden_layers", high=1 << 12)
    features = _features(config, layers)
    width, has_class = fields.integer("hidden_size"), "class" in family.names
    keeps = config.text("vision_feature_select_strategy", default="default")
    if keeps not in ("default", "full"):
        config.wrong(("vision_feature_select_strategy",), '"default" or "full"', keeps)
    if keeps == "default" and not has_class:
        raise UnsupportedError(
            f"{config.where}: field 'vision_feature_select_strategy' is 'default', which leaves the first patch out: "
            "SigLIP has no row of a class in front of it; 'full' is supported"
        )
    if kind == "llava_next" and keeps == "full" and has_class:
        raise UnsupportedError(f"{config.where}: LLaVA-NeXT with 'vision_feature_select_strategy' 'full' on CLIP")
    stack = _stack(
        model,
        family,
        fields,
        layers=[Layer(window=0, scale=0.0, rope=None)] * max(features),
        width=width,
        mlp_width=fields.integer("intermediate_size", high=1 << 24),
        heads=fields.integer("num_attention_heads", high=1 << 14),
        positions=(image_size // patch) ** 2 + has_class,
        epsilon=fields.number("layer_norm_eps", high=1.0),
    )
    projector = Decoder(
        **{
            **_fields_of(stack),
            "family": PROJECTOR,
            "biased": frozenset(r for r in PROJECTOR.biases if has_bias(PROJECTOR, r, config)),
            "width": decoder.width,
            "activation": config.text("projector_hidden_act", default="gelu"),
        }
    )
    pinpoints: tuple[tuple[int, int], ...] = ()
    if kind == "llava_next":
        pinpoints = _pinpoints(config, image_size)
    token = config.integer("image_token_index", "image_token_id", default=32000, low=0, high=1 << 24)
    return VisionTower(
        kind,
        token,
        (token,),
        stack,
        projector,
        layers,
        patch,
        image_size=image_size,
        features=features,
        keeps_class=keeps == "full" and has_class,
        grid_pinpoints=pinpoints,
    )


def _qwen(kind: str, config: Fields, vision: Fields, decoder: Decoder) -> VisionTower:
    is_later = kind == "qwen2_5_vl"
    family, usual = (QWEN2_5_VISION, _USUAL_QWEN2_5) if is_later else (QWEN2_VISION, _USUAL_QWEN2)
    fields = _with_usual(vision, usual)
    _check_channels(fields, "in_channels", "in_chans")
    width = fields.integer("hidden_size" if is_later else "embed_dim")
    given = fields.integer("out_hidden_size" if is_later else "hidden_size")
    if given != decoder.width:
        fields.wrong(
            ("out_hidden_size",) if is_later else ("hidden_size",), f"the decoder's width ({decoder.width})", given
        )
    heads = fields.integer("num_heads", high=1 << 14)
    if width % heads != 0 or width // heads % 4 != 0:
        fields.wrong(
            ("num_heads",), f"a divisor of {width} with four elements of a head, or a multiple of these", heads
        )
    theta = (
        fields.within("rope_parameters").number("rope_theta", default=10000.0, low=1.0)
        if fields.has("rope_parameters")
        else 10000.0
    )
    depth = fields.integer("depth", high=1 << 12)
    rope = Rope(theta, width // heads, "axial", sections=(width // heads // 4,) * 2)
    patch, merge = fields.integer("patch_size", high=1 << 10), fields.integer("spatial_merge_size", high=16)
    window, full = 0, frozenset[int]()
    if is_later:
        window = fields.integer("window_size", high=1 << 16) // merge // patch * merge
        if window == 0:
            fields.wrong(("window_size",), f"{merge * patch} or more", fields.raw("window_size"))
        full = frozenset(_layer_numbers(fields, "fullatt_block_indexes", depth))
    stack = _stack(
        kind,
        family,
        fields,
        layers=[Layer(window=0, scale=0.0, rope=rope)] * depth,
        width=width,
        mlp_width=fields.integer("intermediate_size", high=1 << 24) if is_later else _ratio(fields) * width,
        heads=heads,
        positions=0,
        epsilon=1e-6,
    )
    token = config.integer("image_token_id", default=151655, low=0, high=1 << 24)
    start = config.integer("vision_start_token_id", default=151652, low=0, high=1 << 24)
    end = config.integer("vision_end_token_id", default=151653, low=0, high=1 << 24)
    return VisionTower(
        kind,
        token,
        (start, token, end) if max(start, end) < decoder.vocabulary else (token,),
        stack,
        None,
        depth,
        patch,
        temporal_patch_size=fields.integer("temporal_patch_size", high=16),
        merge_size=merge,
        window=window,
        full_layers=full,
    )


def _ratio(fields: Fields) -> int:
    ratio = fields.number("mlp_ratio", low=1.0, high=64.0)
    if ratio != int(ratio):
        fields.wrong(("mlp_ratio",), "a whole number", ratio)
    return int(ratio)


def _stack(
    model_type: str,
    family: Family,
    fields: Fields,
    *,
    layers: list[Layer],
    width: int,
    mlp_width: int,
    heads: int,
    positions: int,
    epsilon: float,
) -> Decoder:
    if width % heads != 0:
        fields.wrong(("num_attention_heads", "num_heads"), f"a divisor of the width ({width})", heads)
    scale = (width // heads) ** -0.5
    return Decoder(
        model_type=model_type,
        family=family,
        biased=frozenset(role for role in family.biases if has_bias(family, role, fields)),
        layers=tuple(Layer(layer.window, scale, layer.rope) for layer in layers),
        width=width,
        embedding_width=width,
        mlp_width=mlp_width,
        heads=heads,
        kv_heads=heads,
        head_size=width // heads,
        vocabulary=0,
        max_length=positions,
        learned_positions=positions,
        activation=fields.text("hidden_act"),
        epsilon=epsilon,
        softcap=0.0,
        logits_softcap=0.0,
        tied=False,
    )


def _fields_of(decoder: Decoder) -> dict[str, Any]:
    return {name: getattr(decoder, name) for name in decoder.__dataclass_fields__}


def _with_usual(fields: Fields, usual: dict[str, Any]) -> Fields:
    known = {name: value for name, value in fields.values.items() if value is not None}
    return Fields({**usual, **known}, fields.where)


def _check_channels(fields: Fields, *names: str) -> None:
    if fields.integer(*names, default=_CHANNELS) != _CHANNELS:
        fields.wrong(names, f"{_CHANNELS} colours", fields.raw(*names))


def _features(config: Fields, layers: int) -> tuple[int, ...]:
    """Numbers of layers; 0 is what the first one reads, as in Transformers' list of hidden states."""
    given = config.raw("vision_feature_layer", default=-2)
    listed = given if isinstance(given, list) else [given]
    numbers = [number + layers + 1 if type(number) is int and number < 0 else number for number in listed]
    if not numbers or not all(type(number) is int and 0 <= number <= layers for number in numbers):
        config.wrong(("vision_feature_layer",), f"a layer of {layers}, counted from 0 or back from -1", given)
    if max(numbers) == 0:
        config.wrong(("vision_feature_layer",), "a layer behind the first", given)
    return tuple(numbers)


def _layer_numbers(fields: Fields, name: str, depth: int) -> list[int]:
    numbers: Any = fields.raw(name)
    if not isinstance(numbers, list) or not all(type(number) is int and 0 <= number < 1 << 12 for number in numbers):
        fields.wrong((name,), f"a list of layers from 0 to {depth - 1}", numbers)
    return list(numbers)


def _pinpoints(config: Fields, image_size: int) -> tuple[tuple[int, int], ...]:
    usual = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
    given: Any = config.raw("image_grid_pinpoints", default=usual)
    is_good = isinstance(given, list) and 0 < len(given) <= 256
    for pair in given if is_good else []:
        is_good &= isinstance(pair, list) and len(pair) == 2
        is_good &= is_good and all(
            type(side) is int and 0 < side <= 1 << 14 and side % image_size == 0 for side in pair
        )
    if not is_good:
        config.wrong(("image_grid_pinpoints",), f"a list of pairs of multiples of image_size ({image_size})", given)
    return tuple((height, width) for height, width in given)
