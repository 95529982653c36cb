"""Whispers of Transformers with random weights: what camshaft.llm builds of them has the same features, keys, logits and
texts."""

import json

import camshaft
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
llm = pytest.importorskip("camshaft.llm", reason="the Python module was not built: no Python headers")
from camshaft.llm._blocks import in_blocks  # noqa: E402
from camshaft.llm._log_mel import LogMel, log_mel  # noqa: E402
from camshaft.llm._transcript import stretches_of  # noqa: E402
from llm_folders import PagedDecoder, as_given  # noqa: E402
from whisper_folders import FIRST_TIME, GENERATION, RATE, VOCABULARY, WHISPER, sound, write_whisper  # noqa: E402

STATES = WHISPER["max_source_positions"]
EOS = GENERATION["eos_token_id"]


def worst(actual, wanted):
    return np.abs(actual - wanted).max() / np.abs(wanted).max()


def loaded(folder):
    return transformers.WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()


def built(folder, output, **options):
    return llm.build(folder, output, **{"tuning": "heuristic", "cache": "f32", **options})


def features_of(folder, sounds):
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    padded = [np.pad(each, (0, extractor.n_samples - len(each))) for each in sounds]
    return np.stack([extractor._np_extract_fbank_features(each[None], "cpu")[0] for each in padded])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_whisper(tmp_path_factory.mktemp("whisper") / "hf")


@pytest.fixture(scope="module")
def model(folder):
    return loaded(folder)


SOUNDS = {
    "tones": lambda n: np.resize(sound(2), n),
    "a pure tone": lambda n: 0.9 * np.sin(2 * np.pi * 440 * np.arange(n) / RATE),
    "noise": lambda n: np.random.default_rng(1).standard_normal(n) * 0.3,
    "silence": np.zeros,
    "a click": lambda n: np.eye(1, n, n // 3)[0],
    "it fades away": lambda n: np.random.default_rng(2).standard_normal(n) * np.exp(-20 * np.arange(n) / n),
    "hardly anything": lambda n: 1e-5 * np.random.default_rng(3).standard_normal(n),
    "a part of the window": lambda n: np.pad(sound(0.37, 4), (0, n - int(0.37 * RATE))),
}


@pytest.mark.parametrize("bins, seconds", [(80, 2), (128, 2), (80, 30)])
def test_features(bins, seconds):
    extractor = transformers.WhisperFeatureExtractor(feature_size=bins, chunk_length=seconds)
    of = LogMel(RATE, 400, 160, bins, seconds * RATE)
    np.testing.assert_allclose(of.filters(), extractor.mel_filters, atol=1e-9, rtol=1e-5)
    net = camshaft.Network()
    net.output(log_mel(net, net.input("audio", "f32", ["batch", "samples"]), of), "features")
    engine = camshaft.build(net, shapes={"audio": (len(SOUNDS), of.samples)}, tuning="heuristic", verify=False)
    sounds = np.stack([make(of.samples).astype(np.float32) for make in SOUNDS.values()])
    actual = engine.run({"audio": sounds})["features"]
    for name, each, features in zip(SOUNDS, sounds, actual):
        wanted = extractor._np_extract_fbank_features(each[None], "cpu")[0]
        assert worst(features, wanted) < 1e-4, name


def encoded(folder, engine, sounds, states=STATES, block_size=16, seed=0):
    """Caches by their names, and {place: (blocks, number of keys)}, of sounds in any blocks."""
    encoder = camshaft.Engine(folder / "encoder.engine").create_context()
    infos = {info.name: info for info in engine.inputs if info.name.startswith("cross_") and "cache" in info.name}
    width = -(-states // block_size)
    blocks = np.random.default_rng(seed).permutation(len(sounds) * width + 2)[: len(sounds) * width]
    table = blocks.reshape(len(sounds), width).astype(np.int32)
    caches = {
        name: np.full(
            (len(sounds) * width + 2, *info.shape[1:]), np.nan, {"f32": np.float32, "f16": np.float16}[info.dtype]
        )
        for name, info in infos.items()
    }
    for name, cache in caches.items():
        kind, _, layer = name.rpartition(".")
        encoder.bind_output(f"{kind}_out.{layer}", as_given(cache))
    padded = np.stack([np.pad(each, (0, 320 * states - len(each))) for each in sounds])
    outputs = encoder.run({"audio": padded, "block_table": table, **caches})
    assert np.array(outputs["cross_seqlens"]).tolist() == [states] * len(sounds)
    return caches, {place: (row.tolist(), states) for place, row in enumerate(table)}


def rounded(folder):
    """The model with the weights that blocks of 8 bits stand for."""
    model = loaded(folder)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = parameter.numpy()
            if name == "model.decoder.embed_positions.weight":
                parameter.copy_(torch.tensor(values.astype(np.float16)))
            elif parameter.ndim == 2 and "embed_positions" not in name:
                parameter.copy_(torch.tensor(in_blocks(values, 8).values(values.shape[1])))
    return model


def states_of(model, features):
    with torch.no_grad():
        return model.model.encoder(torch.tensor(features)).last_hidden_state


@pytest.mark.parametrize("block_size", [16, 7])
def test_keys_of_the_encoder(tmp_path, folder, model, block_size):
    engine = built(folder, tmp_path / "out", block_size=block_size)
    sounds = [sound(1, 0), sound(0.4, 1), sound(0.999, 2)]
    caches, keys = encoded(tmp_path / "out", engine, sounds, block_size=block_size)
    states = states_of(model, features_of(folder, sounds))
    for layer, part in enumerate(model.model.decoder.layers):
        for kind, project in (("key", part.encoder_attn.k_proj), ("value", part.encoder_attn.v_proj)):
            cache = caches[f"cross_{kind}_cache.{layer}"]
            with torch.no_grad():
                wanted = project(states).numpy()
            for place, (blocks, count) in keys.items():
                actual = cache[blocks].reshape(-1, WHISPER["d_model"])[:count]
                assert worst(actual, wanted[place]) < 1e-4
            # What is behind the last state, and in blocks of nobody, is as it was.
            assert np.isnan(cache).sum() == cache.size - len(sounds) * STATES * WHISPER["d_model"]


@pytest.mark.parametrize("options, most", [({}, 1e-4), ({"block_size": 5}, 1e-4), ({"cache": "f16"}, 5e-3),
                                           ({"weights": "int8", "activations": "f32"}, 1e-4)])  # fmt: skip
def test_logits(tmp_path, folder, model, options, most):
    """Of three sounds in one batch, prefilled in chunks or whole, then token by token to the longest text."""
    engine = built(folder, tmp_path / "out", **options)
    if "weights" in options:
        model = rounded(folder)
    description = json.loads((tmp_path / "out/llm.json").read_text())
    sounds = [sound(1, 3), sound(0.5, 4), sound(1, 5)]
    caches, keys = encoded(tmp_path / "out", engine, sounds, block_size=description["block_size"])
    names = "abc"
    decoder = PagedDecoder(engine, description, cross=(caches, dict(zip(names, keys.values()))))
    random = np.random.default_rng(6)
    longest = WHISPER["max_target_positions"]
    ids = {name: random.integers(0, VOCABULARY, longest) for name in names}
    parts = {name: [] for name in names}

    def take(padding=0, **counts):
        done = {name: sum(map(len, parts[name])) for name in counts}
        new = {name: ids[name][done[name] : done[name] + count] for name, count in counts.items()}
        for name, logits in decoder.step(new, padding).items():
            parts[name].append(logits)

    take(a=4)
    take(b=9, a=1, padding=3)
    take(c=17, b=1, a=1)
    for step in range(longest - 6):
        left = [name for name in names if sum(map(len, parts[name])) < longest]
        take(padding=step % 2, **{name: 1 for name in left[step % len(left) :] + left[: step % len(left)]})
    states = states_of(model, features_of(folder, sounds))
    for place, name in enumerate(names):
        with torch.no_grad():
            wanted = model(
                encoder_outputs=(states[place : place + 1],), decoder_input_ids=torch.tensor(ids[name][None])
            ).logits[0]
        actual = np.concatenate(parts[name])
        assert worst(actual, wanted[: len(actual)].numpy()) < most


def texts_of(model, features, **options):
    """Tokens of each sound, without the forced ones in front and what is behind the end."""
    made = model.generate(torch.tensor(features), do_sample=False, num_beams=1, **options)
    made = made if isinstance(made, torch.Tensor) else made["sequences"]
    return [row[: row.index(EOS)] if EOS in row else row for row in made.tolist()]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("task, language", [("transcribe", "en"), ("translate", "de")])
def test_greedy_texts(tmp_path, seed, task, language):
    # Transformers begins a window anew where two times follow each other, whatever it was asked for.
    never = [*GENERATION["suppress_tokens"], *range(FIRST_TIME, VOCABULARY)]
    folder = write_whisper(tmp_path / "hf", seed, generation={"suppress_tokens": never})
    model = loaded(folder)
    built(folder, tmp_path / "out")
    sounds = [sound(1, 10 + seed), sound(0.3, 20 + seed), sound(0.8, 30 + seed), sound(1, 40 + seed)]
    wanted = texts_of(model, features_of(folder, sounds), language=language, task=task, max_new_tokens=25)
    results = llm.Whisper(tmp_path / "out", max_num_seqs=3).transcribe(
        sounds, language=language, task=task, max_tokens=25
    )
    assert [[token for segment in result.segments for token in segment.tokens] for result in results] == wanted
    assert len({tuple(text) for text in wanted}) > 1  # sounds matter


def text_with_times(model, features, prompt, count):
    """The likeliest tokens of a window by Transformers' rules."""
    config = model.generation_config
    rules = transformers.WhisperTimeStampLogitsProcessor(config, begin_index=len(prompt))
    states, ids = states_of(model, features[None]), list(prompt)
    while len(ids) < len(prompt) + count:
        with torch.no_grad():
            scores = model(encoder_outputs=(states,), decoder_input_ids=torch.tensor([ids])).logits[:, -1]
        scores[:, GENERATION["suppress_tokens"]] = -torch.inf
        if len(ids) == len(prompt):
            scores[:, GENERATION["begin_suppress_tokens"]] = -torch.inf
        ids.append(int(rules(torch.tensor([ids]), scores).argmax()))
        if ids[-1] == EOS:
            return ids[len(prompt) : -1]
    return ids[len(prompt) :]


@pytest.mark.parametrize("seed", range(4))
def test_texts_with_times(tmp_path, monkeypatch, seed):
    folder = write_whisper(tmp_path / "hf", seed)
    model = loaded(folder)
    built(folder, tmp_path / "out")
    windows = []

    def recorded(tokens, *arguments):
        windows.append(list(tokens))
        return stretches_of(tokens, *arguments)

    monkeypatch.setattr("camshaft.llm._windows.stretches_of", recorded)
    whisper = llm.Whisper(tmp_path / "out")
    sounds = [sound(1, 60 + i) for i in range(5)]
    for samples, features in zip(sounds, features_of(folder, sounds)):
        windows.clear()
        [result] = whisper.transcribe(samples, language="en", timestamps=True, max_tokens=30)
        assert windows[0] == text_with_times(model, features, [257, 258, 261], 30)
        assert windows[0][0] >= FIRST_TIME
        assert result.segments


def test_detected_languages(tmp_path):
    for seed in range(4):
        folder = write_whisper(tmp_path / f"hf{seed}", seed)
        model, out = loaded(folder), tmp_path / f"out{seed}"
        built(folder, out)
        sounds = [sound(1, 50 + i) for i in range(4)]
        wanted = model.detect_language(torch.tensor(features_of(folder, sounds))).tolist()
        results = llm.Whisper(out).transcribe(sounds, max_tokens=2)
        assert [{"en": 258, "de": 259}[result.language] for result in results] == wanted
