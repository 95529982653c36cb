"""Small models of text and pictures with random weights, as Hugging Face folders, and pictures for them."""

import io
import json

import llm_folders
import numpy as np
from safetensors.numpy import save_file

VOCABULARY = 320
IMAGE, VISION_START, VISION_END, END = "<image>", "<|vision_start|>", "<|vision_end|>", "<end>"
SPECIAL = [END, IMAGE, VISION_START, VISION_END]  # behind the bytes: 256 to 259
IMAGE_ID = 257
TEXT = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "eos_token_id": 256,
    "bos_token_id": 256,
}
CLIP = {
    "model_type": "clip_vision_model",
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "image_size": 20,
    "patch_size": 4,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
    "projection_dim": 16,
}
SIGLIP = {**CLIP, "model_type": "siglip_vision_model", "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}
QWEN2_VISION = {
    "model_type": "qwen2_vl",
    "depth": 3,
    "embed_dim": 48,
    "hidden_size": 64,
    "hidden_act": "quick_gelu",
    "mlp_ratio": 2,
    "num_heads": 3,
    "in_channels": 3,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
QWEN2_5_VISION = {
    "model_type": "qwen2_5_vl",
    "depth": 4,
    "hidden_size": 48,
    "hidden_act": "silu",
    "intermediate_size": 72,
    "num_heads": 3,
    "in_channels": 3,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 16,
    "out_hidden_size": 64,
    "fullatt_block_indexes": [1, 3],
}
# That of LLaVA reads lists of parts alone.
LLAVA_TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: "
    "{% for c in m['content'] | selectattr('type', 'equalto', 'image') %}<image>{{ '\\n' }}{% endfor %}"
    "{% for c in m['content'] | selectattr('type', 'equalto', 'text') %}{{ c.text }}{% endfor %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
QWEN_TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}{% else %}"
    "{% for content in m.content %}{% if content.type == 'image' or 'image_url' in content %}"
    "<|vision_start|><image><|vision_end|>{% elif 'text' in content %}{{ content.text }}{% endif %}{% endfor %}"
    "{% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)


def _made(shapes, random):
    """Weights whose results differ: those of matrices are as large as their inputs are many."""
    made = {}
    for name, shape in shapes.items():
        values = random.standard_normal(shape, np.float32)
        is_norm = any(part in name for part in ("norm", "layrnorm", "ln_q"))
        if len(shape) == 1:
            made[name] = (1 if is_norm and name.endswith("weight") else 0) + np.float32(0.1) * values
        else:
            made[name] = values * np.float32(1.5 / np.sqrt(np.prod(shape[1:])))
    return made


def clip_shapes(vision, prefix):
    width, inner, side = vision["hidden_size"], vision["intermediate_size"], vision["patch_size"]
    is_clip = vision["model_type"] == "clip_vision_model"
    count = (vision["image_size"] // side) ** 2 + is_clip
    shapes = {
        "embeddings.patch_embedding.weight": (width, 3, side, side),
        "embeddings.position_embedding.weight": (count, width),
        "post_layernorm.weight": (width,),
        "post_layernorm.bias": (width,),
    }
    if is_clip:
        shapes |= {"embeddings.class_embedding": (width,)}
        shapes |= {f"pre_layrnorm.{kind}": (width,) for kind in ("weight", "bias")}
    else:
        shapes["embeddings.patch_embedding.bias"] = (width,)
    for i in range(vision["num_hidden_layers"]):
        of = f"encoder.layers.{i}."
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes |= {f"{of}self_attn.{name}.weight": (width, width), f"{of}self_attn.{name}.bias": (width,)}
        shapes |= {f"{of}mlp.fc1.weight": (inner, width), f"{of}mlp.fc1.bias": (inner,)}
        shapes |= {f"{of}mlp.fc2.weight": (width, inner), f"{of}mlp.fc2.bias": (width,)}
        for norm in ("layer_norm1", "layer_norm2"):
            shapes |= {f"{of}{norm}.{kind}": (width,) for kind in ("weight", "bias")}
    return {prefix + name: shape for name, shape in shapes.items()}


def qwen_shapes(vision, width_out):
    later = vision["model_type"] == "qwen2_5_vl"
    width = vision["hidden_size" if later else "embed_dim"]
    inner = vision["intermediate_size"] if later else width * vision["mlp_ratio"]
    side, merged = vision["patch_size"], width * vision["spatial_merge_size"] ** 2
    shapes = {"patch_embed.proj.weight": (width, 3, vision["temporal_patch_size"], side, side)}
    norms = ["merger.ln_q"]
    for i in range(vision["depth"]):
        of = f"blocks.{i}."
        norms += [of + "norm1", of + "norm2"]
        shapes |= {f"{of}attn.qkv.weight": (3 * width, width), f"{of}attn.qkv.bias": (3 * width,)}
        shapes |= {f"{of}attn.proj.weight": (width, width), f"{of}attn.proj.bias": (width,)}
        names = {"gate_proj": (inner, width), "up_proj": (inner, width), "down_proj": (width, inner)}
        for name, shape in (names if later else {"fc1": (inner, width), "fc2": (width, inner)}).items():
            shapes |= {f"{of}mlp.{name}.weight": shape, f"{of}mlp.{name}.bias": shape[:1]}
    for norm in norms:
        shapes |= {f"{norm}.{kind}": (width,) for kind in (("weight",) if later else ("weight", "bias"))}
    shapes |= {"merger.mlp.0.weight": (merged, merged), "merger.mlp.0.bias": (merged,)}
    shapes |= {"merger.mlp.2.weight": (width_out, merged), "merger.mlp.2.bias": (width_out,)}
    return {"visual." + name: shape for name, shape in shapes.items()}


def text_tensors(text, random, prefix=""):
    """Of a Llama, or with biases a Qwen; `prefix` is in front of "model." and "lm_head."."""
    made = llm_folders.llama_tensors({**text, "tie_word_embeddings": False}, random)
    if text["model_type"] != "llama":
        for i in range(text["num_hidden_layers"]):
            for name in "qkv":
                of = f"model.layers.{i}.self_attn.{name}_proj."
                made[of + "bias"] = random.standard_normal(len(made[of + "weight"]), np.float32) * np.float32(0.3)
    return {prefix + name: values for name, values in made.items()}


def write_llava(folder, seed=0, vision=CLIP, text=(), preprocessor=None, **changes):
    """LLaVA, or with model_type="llava_next" that; changes are of the configuration, None leaves a field out."""
    random = np.random.default_rng(seed)
    text = {**TEXT, **dict(text)}
    config = {
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "image_token_index": IMAGE_ID,
        "projector_hidden_act": "gelu",
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default" if vision["model_type"] == "clip_vision_model" else "full",
        "vision_config": vision,
        "text_config": text,
        **changes,
    }
    config = {name: value for name, value in config.items() if value is not None}
    layers = config["vision_feature_layer"] if isinstance(config.get("vision_feature_layer"), list) else [0]
    width, inner = text["hidden_size"], vision["hidden_size"] * len(layers)
    shapes = clip_shapes(vision, "vision_tower.vision_model.")
    shapes |= {
        "multi_modal_projector.linear_1.weight": (width, inner),
        "multi_modal_projector.linear_1.bias": (width,),
        "multi_modal_projector.linear_2.weight": (width, width),
        "multi_modal_projector.linear_2.bias": (width,),
    }
    if config["model_type"] == "llava_next":
        shapes["image_newline"] = (width,)
    tensors = _made(shapes, random) | text_tensors(text, random, "language_model.")
    size = vision["image_size"]
    if vision["model_type"] == "clip_vision_model":
        features = {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": size},
            "crop_size": {"height": size, "width": size},
            "do_center_crop": True,
            "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711],
        }
    else:
        features = {
            "image_processor_type": "SiglipImageProcessor",
            "size": {"height": size, "width": size},
            "image_mean": [0.5, 0.5, 0.5],
            "image_std": [0.5, 0.5, 0.5],
        }
    if config["model_type"] == "llava_next":
        features |= {"image_processor_type": "LlavaNextImageProcessor", "do_pad": True}
        features["image_grid_pinpoints"] = config["image_grid_pinpoints"]
    features |= {"resample": 3, "do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
    _write(folder, config, tensors, {**features, **(preprocessor or {})}, LLAVA_TEMPLATE)
    return folder


def write_qwen(folder, seed=0, vision=QWEN2_VISION, preprocessor=None, **changes):
    """Qwen2-VL, or Qwen2.5-VL by `vision`; changes are of the configuration, None leaves a field out."""
    random = np.random.default_rng(seed)
    config = {
        **TEXT,
        "model_type": vision["model_type"],
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "image_token_id": IMAGE_ID,
        "video_token_id": 319,
        "vision_start_token_id": 258,
        "vision_end_token_id": 259,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "rope_theta": 1e6,
        "use_sliding_window": False,
        "vision_config": vision,
        **changes,
    }
    config = {name: value for name, value in config.items() if value is not None}
    if vision["model_type"] == "qwen2_5_vl":
        config["architectures"] = ["Qwen2_5_VLForConditionalGeneration"]
    tensors = _made(qwen_shapes(vision, config["hidden_size"]), random) | text_tensors(config, random)
    features = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "min_pixels": 256,
        "max_pixels": 4096,
        "patch_size": vision["patch_size"],
        "temporal_patch_size": vision["temporal_patch_size"],
        "merge_size": vision["spatial_merge_size"],
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "resample": 3,
    }
    _write(folder, config, tensors, {**features, **(preprocessor or {})}, QWEN_TEMPLATE)
    return folder


def _write(folder, config, tensors, features, template):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(features))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    write_tokenizer(folder)


def write_tokenizer(folder):
    """Of single bytes, and what stands for pictures."""
    import tokenizers

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(SPECIAL)
    made.save(str(folder / "tokenizer.json"))


def picture(width, height, seed=0):
    """u8 [height, width, 3]: slopes and noise, so that resizing shows."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    made = np.stack([x * 255 / max(width - 1, 1), y * 255 / max(height - 1, 1), 127 + 100 * np.sin(x / 3 + y / 5)], -1)
    return np.clip(made + random.normal(0, 30, made.shape), 0, 255).astype(np.uint8)


def encoded(pixels, form="PNG", **options):
    """The bytes of a picture's file."""
    import PIL.Image

    made = io.BytesIO()
    PIL.Image.fromarray(pixels).save(made, form, **options)
    return made.getvalue()
