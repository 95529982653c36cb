"""T5s of Transformers with random weights: what camshaft.llm builds of them has the same keys, logits and texts."""

import json

import camshaft
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="Transformers is not installed")
llm = pytest.importorskip("camshaft.llm", reason="the Python module was not built: no Python headers")
from llm_folders import PagedDecoder, as_given  # noqa: E402
from t5_folders import GATED, T5, write_t5  # noqa: E402

LONGEST = 160
# Distances reach beyond the last bucket.
USUAL = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "n_positions": LONGEST}
KINDS = {
    "t5": USUAL,
    "t5 1.1": {**USUAL, **GATED},
    "mt5": {**USUAL, **GATED, "model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"]},
    "few buckets": {},
}
PROMPTS = {
    name: np.random.default_rng(length).integers(2, T5["vocab_size"], length)
    for name, length in (("a", 150), ("b", 5), ("c", 1), ("d", 40))
}


def loaded(folder):
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation="eager").eval()


def worst(actual, wanted):
    return np.abs(actual - wanted).max() / np.abs(wanted).max()


def encoded(folder, engine, prompts, block_size):
    """Caches by their names, and {name: (blocks, number of keys)}, of prompts in one batch and in any blocks."""
    encoder = camshaft.Engine(folder / "encoder.engine").create_context()
    infos = {info.name: info for info in engine.inputs if info.name.startswith("cross_") and "cache" in info.name}
    [width] = [info.shape[1] for info in engine.inputs if info.name == "cross_block_table"]
    order = np.random.default_rng(0).permutation(len(prompts) * width + 2)[: len(prompts) * width]
    table = order.reshape(len(prompts), width)
    caches = {
        name: np.full((len(prompts) * width + 2, *info.shape[1:]), np.nan, np.float32) for name, info in infos.items()
    }
    for name, cache in caches.items():
        kind, _, layer = name.rpartition(".")
        encoder.bind_output(f"{kind}_out.{layer}", as_given(cache))
    places = [np.arange(len(ids)) for ids in prompts.values()]
    slots = [row[at // block_size] * block_size + at % block_size for row, at in zip(table, places)]
    encoder.run(
        {
            "input_ids": np.concatenate(list(prompts.values())).astype(np.int32),
            "cumulative_sequence_length": np.cumsum([0, *map(len, prompts.values())]).astype(np.int32),
            "slots": np.concatenate(slots).astype(np.int32),
            **caches,
        }
    )
    keys = {name: (row.tolist(), len(ids)) for (name, ids), row in zip(prompts.items(), table)}
    return caches, keys


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_size", [16, 7])
def test_logits(tmp_path, kind, block_size):
    """Of prompts in one batch, of which one has a single token; texts begin in chunks or whole, then go on token by token."""
    write_t5(tmp_path / "hf", **KINDS[kind])
    model = loaded(tmp_path / "hf")
    engine = llm.build(tmp_path / "hf", tmp_path / "out", tuning="heuristic", cache="f32", block_size=block_size)
    prompts = {name: ids[: {**T5, **KINDS[kind]}["n_positions"]] for name, ids in PROMPTS.items()}
    caches, keys = encoded(tmp_path / "out", engine, prompts, block_size)
    description = json.loads((tmp_path / "out/llm.json").read_text())
    decoder = PagedDecoder(engine, description, blocks=120, cross=(caches, keys))
    random = np.random.default_rng(6)
    steps = 64 if kind == "few buckets" else LONGEST
    ids = {name: np.concatenate([[0], random.integers(2, T5["vocab_size"], steps - 1)]) for name in prompts}
    parts = {name: [] for name in prompts}

    def take(padding=0, **counts):
        done = {name: sum(map(len, parts[name])) for name in counts}
        new = {name: ids[name][done[name] : done[name] + count] for name, count in counts.items()}
        for name, logits in decoder.step(new, padding).items():
            parts[name].append(logits)

    take(a=1)
    take(b=9, a=1, padding=3)  # more tokens than its prompt has
    take(c=17, b=1, a=1)
    take(d=steps - 64 if steps > 64 else 1, c=1)
    for step in range(64):
        left = [name for name in prompts if sum(map(len, parts[name])) < steps]
        if left:
            take(padding=step % 2, **{name: 1 for name in left[step % len(left) :] + left[: step % len(left)]})
    for name, prompt in prompts.items():
        with torch.no_grad():
            wanted = model(
                input_ids=torch.tensor(prompt[None]), decoder_input_ids=torch.tensor(ids[name][None])
            ).logits[0]
        actual = np.concatenate(parts[name])
        assert len(actual) >= 60
        assert worst(actual, wanted[: len(actual)].numpy()) < 1e-4, name


@pytest.mark.parametrize("kind", ["t5", "t5 1.1", "mt5"])
def test_texts(tmp_path, kind):
    # Transformers' generate() takes the decoder to have as many layers as the encoder.
    write_t5(tmp_path / "hf", seed=4, **KINDS[kind], num_layers=3)
    model = loaded(tmp_path / "hf")
    llm.build(tmp_path / "hf", tmp_path / "out", tuning="heuristic", cache="f32")
    prompts = [ids.tolist() for ids in PROMPTS.values()]
    outputs = llm.EncoderDecoderLLM(tmp_path / "out", max_num_seqs=3).generate(
        prompts, llm.SamplingParams(temperature=0, max_tokens=40)
    )
    beams = llm.EncoderDecoderLLM(tmp_path / "out").beam_search(prompts, llm.BeamSearchParams(4, 20, ignore_eos=True))
    for prompt, output, searched in zip(prompts, outputs, beams):
        ids = torch.tensor([prompt])
        with torch.no_grad():
            wanted = model.generate(ids, do_sample=False, num_beams=1, max_new_tokens=40)[0].tolist()
            found = model.generate(
                ids, do_sample=False, num_beams=4, num_return_sequences=4, max_new_tokens=20, eos_token_id=None
            )
        assert [0, *output.outputs[0].token_ids] == wanted
        assert [sequence.tokens for sequence in searched.sequences] == found.tolist()
