"""Models of text and pictures in fp64, as their papers define them: one picture, one sequence at a time."""

import math

import numpy as np
import PIL.Image

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def normalised(pixels, mean=MEAN, std=STD):
    return (pixels / 255 - np.asarray(mean)) / np.asarray(std)


def cropped(pixels, size):
    """LLaVA's: the shorter side becomes `size`, and what is over of the longer one is cut off."""
    height, width = pixels.shape[:2]
    scale = size / min(height, width)
    sides = (size, int(height * scale)) if width <= height else (int(width * scale), size)
    made = np.asarray(PIL.Image.fromarray(pixels).resize(sides, PIL.Image.Resampling.BICUBIC))
    top, left = (made.shape[0] - size) // 2, (made.shape[1] - size) // 2
    return made[top : top + size, left : left + size]


def smart_size(height, width, factor, least, most):
    high, wide = (round(side / factor) * factor for side in (height, width))
    if high * wide > most:
        scale = math.sqrt(height * width / most)
        return [max(factor, math.floor(side / scale / factor) * factor) for side in (height, width)]
    if high * wide < least:
        scale = math.sqrt(least / (height * width))
        return [math.ceil(side * scale / factor) * factor for side in (height, width)]
    return [high, wide]


def smart_resized(pixels, factor, least, most):
    high, wide = smart_size(*pixels.shape[:2], factor, least, most)
    return np.asarray(PIL.Image.fromarray(pixels).resize((wide, high), PIL.Image.Resampling.BICUBIC))


class Weights:
    def __init__(self, tensors, prefix=""):
        self._tensors, self._prefix = tensors, prefix

    def __getitem__(self, name):
        return self._tensors[self._prefix + name].astype(np.float64)

    def linear(self, x, name):
        bias = self._tensors.get(f"{self._prefix}{name}.bias", 0)
        return x @ self[f"{name}.weight"].T + bias

    def norm(self, x, name, epsilon):
        if f"{self._prefix}{name}.bias" not in self._tensors:
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * self[f"{name}.weight"]
        apart = x - x.mean(-1, keepdims=True)
        scaled = apart / np.sqrt((apart * apart).mean(-1, keepdims=True) + epsilon)
        return scaled * self[f"{name}.weight"] + self[f"{name}.bias"]


def _gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def _tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "gelu": _gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def attention(q, k, v, sees):
    """q [n, heads, size]; sees [n, n]: whether a row sees another."""
    scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1]) + np.where(sees, 0, -np.inf)
    share = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", share / share.sum(-1, keepdims=True), v).reshape(len(q), -1)


def rotated(x, angles):
    """angles: [n, size / 2]."""
    first, second = np.split(x, 2, axis=-1)
    cosine, sine = (np.concatenate([f(angles)] * 2, axis=-1)[:, None] for f in (np.cos, np.sin))
    return x * cosine + np.concatenate([-second, first], axis=-1) * sine


def patches_of(pixels, kernel):
    """Each patch of [height, width, 3] by [width, 3, side, side]: [down, across, width]."""
    side = kernel.shape[-1]
    down, across = pixels.shape[0] // side, pixels.shape[1] // side
    apart = pixels[: down * side, : across * side].reshape(down, side, across, side, 3)
    return np.einsum("yixjc,wcij->yxw", apart, kernel)


def llava_rows(config, tensors, pixels):
    """pixels: normalised, of the tower's size."""
    vision = config["vision_config"]
    w = Weights(tensors, "vision_tower.vision_model.")
    heads, is_clip = vision["num_attention_heads"], vision["model_type"] == "clip_vision_model"
    x = patches_of(pixels, w["embeddings.patch_embedding.weight"]).reshape(-1, vision["hidden_size"])
    if is_clip:
        x = np.concatenate([w["embeddings.class_embedding"][None], x])
    else:
        x = x + w["embeddings.patch_embedding.bias"]
    x = x + w["embeddings.position_embedding.weight"]
    if is_clip:
        x = w.norm(x, "pre_layrnorm", vision["layer_norm_eps"])
    states = [x]
    for i in range(vision["num_hidden_layers"]):
        of = f"encoder.layers.{i}."
        h = w.norm(x, of + "layer_norm1", vision["layer_norm_eps"])
        q, k, v = (w.linear(h, f"{of}self_attn.{n}_proj").reshape(len(x), heads, -1) for n in "qkv")
        x = x + w.linear(attention(q, k, v, np.ones((len(x), len(x)), bool)), of + "self_attn.out_proj")
        h = w.norm(x, of + "layer_norm2", vision["layer_norm_eps"])
        x = x + w.linear(ACTIVATIONS[vision["hidden_act"]](w.linear(h, of + "mlp.fc1")), of + "mlp.fc2")
        states.append(x)
    layers = config["vision_feature_layer"]
    y = np.concatenate([states[i] for i in (layers if isinstance(layers, list) else [layers])], axis=-1)
    if config["vision_feature_select_strategy"] == "default":
        y = y[1:]
    projector = Weights(tensors, "multi_modal_projector.")
    y = ACTIVATIONS[config["projector_hidden_act"]](projector.linear(y, "linear_1"))
    return projector.linear(y, "linear_2")


def qwen_rows(config, tensors, pixels):
    """pixels: normalised, of a size that rows fill. The rows, and how many there are down and across."""
    vision = config["vision_config"]
    later = vision["model_type"] == "qwen2_5_vl"
    w, heads, merge = Weights(tensors, "visual."), vision["num_heads"], vision["spatial_merge_size"]
    kernel = w["patch_embed.proj.weight"].sum(2)
    grid = patches_of(pixels, kernel)
    down, across, width = grid.shape
    y, x = (each.reshape(-1) for each in np.mgrid[:down, :across])
    states, size = grid.reshape(-1, width), width // heads
    frequencies = 10000.0 ** (-np.arange(0, size // 2, 2) / (size // 2))
    angles = np.concatenate([y[:, None] * frequencies, x[:, None] * frequencies], axis=-1)
    all_see = np.ones((len(states), len(states)), bool)
    windows = all_see
    if later:
        side = vision["window_size"] // vision["patch_size"] // merge * merge
        window = y // side * 1000 + x // side
        windows = window[:, None] == window[None]
    for i in range(vision["depth"]):
        of = f"blocks.{i}."
        h = w.norm(states, of + "norm1", 1e-6)
        q, k, v = np.moveaxis(w.linear(h, of + "attn.qkv").reshape(len(states), 3, heads, size), 1, 0)
        sees = all_see if not later or i in vision["fullatt_block_indexes"] else windows
        states = states + w.linear(attention(rotated(q, angles), rotated(k, angles), v, sees), of + "attn.proj")
        h = w.norm(states, of + "norm2", 1e-6)
        act = ACTIVATIONS[vision["hidden_act"]]
        if later:
            h = act(w.linear(h, of + "mlp.gate_proj")) * w.linear(h, of + "mlp.up_proj")
            states = states + w.linear(h, of + "mlp.down_proj")
        else:
            states = states + w.linear(act(w.linear(h, of + "mlp.fc1")), of + "mlp.fc2")
    states = w.norm(states, "merger.ln_q", 1e-6).reshape(down // merge, merge, across // merge, merge, width)
    merged = states.transpose(0, 2, 1, 3, 4).reshape(-1, merge * merge * width)
    rows = w.linear(_gelu(w.linear(merged, "merger.mlp.0")), "merger.mlp.2")
    return rows, down // merge, across // merge


def text_logits(text, w, embeddings, positions):
    """[tokens, vocabulary]; embeddings: [tokens, width]; positions: [tokens, 3], which are equal without M-RoPE."""
    heads, kv_heads, size = text["num_attention_heads"], text["num_key_value_heads"], text["hidden_size"] // 4
    frequencies = text["rope_theta"] ** (-np.arange(0, size, 2) / size)
    sections = (text.get("rope_scaling") or {}).get("mrope_section", [size // 2])
    axes = np.repeat(np.arange(len(sections)), sections)
    angles = np.asarray(positions)[:, axes] * frequencies
    x, count = embeddings, len(embeddings)
    for i in range(text["num_hidden_layers"]):
        of = f"model.layers.{i}."
        h = w.norm(x, of + "input_layernorm", text["rms_norm_eps"])
        q, k, v = (w.linear(h, f"{of}self_attn.{n}_proj").reshape(count, -1, size) for n in "qkv")
        k, v = (np.repeat(part, heads // kv_heads, axis=1) for part in (rotated(k, angles), v))
        y = attention(rotated(q, angles), k, v, np.tri(count, dtype=bool))
        x = x + w.linear(y, of + "self_attn.o_proj")
        h = w.norm(x, of + "post_attention_layernorm", text["rms_norm_eps"])
        gate = w.linear(h, of + "mlp.gate_proj")
        x = x + w.linear(ACTIVATIONS["silu"](gate) * w.linear(h, of + "mlp.up_proj"), of + "mlp.down_proj")
    return w.norm(x, "model.norm", text["rms_norm_eps"]) @ w["lm_head.weight"].T


class Reference:
    """Of a folder that vision_folders wrote: llava or Qwen."""

    def __init__(self, config, tensors, features):
        self.config, self._tensors, self._features = config, tensors, features
        self._is_qwen = "qwen" in config["model_type"]
        self.text = config if self._is_qwen else config["text_config"]
        self._weights = Weights(tensors, "" if self._is_qwen else "language_model.")
        self._known = {}
        self.placeholder = config["image_token_id" if self._is_qwen else "image_token_index"]

    def rows(self, pixels):
        """The rows, and how many there are down and across: of LLaVA 0."""
        key = pixels.shape, pixels.tobytes()
        if key not in self._known:
            self._known[key] = self._computed(pixels)
        return self._known[key]

    def _computed(self, pixels):
        mean, std = self._features["image_mean"], self._features["image_std"]
        if self._is_qwen:
            vision = self.config["vision_config"]
            factor = vision["patch_size"] * vision["spatial_merge_size"]
            made = smart_resized(pixels, factor, self._features["min_pixels"], self._features["max_pixels"])
            return qwen_rows(self.config, self._tensors, normalised(made, mean, std))
        size = self.config["vision_config"]["image_size"]
        if "crop_size" in self._features:
            made = cropped(pixels, size)
        else:
            made = np.asarray(PIL.Image.fromarray(pixels).resize((size, size), PIL.Image.Resampling.BICUBIC))
        return llava_rows(self.config, self._tensors, normalised(made, mean, std)), 0, 0

    def logits(self, tokens, pictures):
        """tokens: with a placeholder for each picture. The logits, and the tokens with all placeholders."""
        table = self._weights["model.embed_tokens.weight"]
        embeddings, positions, ids, left, at = [], [], [], iter(pictures), 0
        for token in tokens:
            if token != self.placeholder:
                embeddings.append(table[token][None])
                positions.append([[at] * 3])
                ids.append(token)
                at += 1
                continue
            rows, down, across = self.rows(next(left))
            embeddings.append(rows)
            ids += [token] * len(rows)
            if down:
                y, x = (each.reshape(-1) for each in np.mgrid[:down, :across])
                positions.append(np.stack([np.full(len(rows), at), at + y, at + x], axis=-1))
                at += max(down, across)
            else:
                positions.append(np.repeat(at + np.arange(len(rows))[:, None], 3, axis=1))
                at += len(rows)
        return text_logits(self.text, self._weights, np.concatenate(embeddings), np.concatenate(positions)), ids

    def greedy(self, tokens, pictures, count):
        """The likeliest text of so many tokens."""
        made = list(tokens)
        for _ in range(count):
            made.append(int(self.logits(made, pictures)[0][-1].argmax()))
        return made[len(tokens) :]
