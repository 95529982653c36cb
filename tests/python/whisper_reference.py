"""Whisper in fp64 with NumPy alone, of one sound at a time: what engines are compared with."""

import math

import numpy as np

_erf = np.vectorize(math.erf)


def log_mel(samples, filters, window=400, hop=160):
    """[bins, frames] of [samples]; filters: [window / 2 + 1, bins]."""
    around = np.pad(np.asarray(samples, np.float64), window // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(around, window)[::hop][:-1]
    power = np.abs(np.fft.rfft(frames * np.hanning(window + 1)[:-1], axis=1)) ** 2
    levels = np.log10(np.maximum(power @ filters.astype(np.float64), 1e-10))
    return ((np.maximum(levels, levels.max() - 8) + 4) / 4).T


class Reference:
    def __init__(self, config, tensors):
        self.config = config
        self.w = {name.removeprefix("model."): value.astype(np.float64) for name, value in tensors.items()}

    def states(self, features):
        """[states, width] of [bins, frames]."""
        x = _gelu(self._convolved(features, "encoder.conv1", 1))
        x = _gelu(self._convolved(x, "encoder.conv2", 2)).T
        x = x + self.w["encoder.embed_positions.weight"][: len(x)]
        for i in range(self.config["encoder_layers"]):
            of = f"encoder.layers.{i}."
            h = self._norm(x, of + "self_attn_layer_norm")
            x = x + self._attention(h, h, of + "self_attn.", self.config["encoder_attention_heads"], False)
            x = x + self._mlp(x, of)
        return self._norm(x, "encoder.layer_norm")

    def logits(self, states, ids):
        """[tokens, vocabulary]"""
        heads = self.config["decoder_attention_heads"]
        table = self.w["decoder.embed_tokens.weight"]
        x = table[ids] + self.w["decoder.embed_positions.weight"][: len(ids)]
        for i in range(self.config["decoder_layers"]):
            of = f"decoder.layers.{i}."
            h = self._norm(x, of + "self_attn_layer_norm")
            x = x + self._attention(h, h, of + "self_attn.", heads, True)
            h = self._norm(x, of + "encoder_attn_layer_norm")
            x = x + self._attention(h, states, of + "encoder_attn.", heads, False)
            x = x + self._mlp(x, of)
        return self._norm(x, "decoder.layer_norm") @ table.T

    def greedy(self, states, prompt, count, never=(), not_first=(), end=None):
        """The likeliest tokens behind a prompt, up to `end`."""
        text = []
        while len(text) < count:
            row = self.logits(states, [*prompt, *text])[-1]
            row[[*never, *(not_first if not text else ())]] = -np.inf
            text.append(int(row.argmax()))
            if text[-1] == end:
                return text[:-1]
        return text

    def _linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0)

    def _norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * self.w[name + ".weight"] + self.w[name + ".bias"]

    def _mlp(self, x, of):
        return self._linear(_gelu(self._linear(self._norm(x, of + "final_layer_norm"), of + "fc1")), of + "fc2")

    def _attention(self, x, seen, of, heads, causal):
        size = x.shape[1] // heads
        q, k, v = (
            self._linear(y, of + name).reshape(len(y), heads, size)
            for y, name in ((x, "q_proj"), (seen, "k_proj"), (seen, "v_proj"))
        )
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size)
        if causal:
            scores = scores + np.where(np.tri(len(x), dtype=bool), 0, -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("hqk,khd->qhd", share / share.sum(-1, keepdims=True), v)
        return self._linear(y.reshape(len(x), -1), of + "out_proj")

    def _convolved(self, x, name, stride):
        around = np.pad(x, ((0, 0), (1, 1)))
        views = np.lib.stride_tricks.sliding_window_view(around, 3, axis=1)[:, ::stride]
        return np.einsum("itk,oik->ot", views, self.w[name + ".weight"]) + self.w[name + ".bias"][:, None]


def _gelu(x):
    return x * (1 + _erf(x / math.sqrt(2))) / 2
