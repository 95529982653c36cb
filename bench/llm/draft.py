"""What guesses of a draft model give: tokens of a text that a step of the model adds, and tokens a second of one thread's
processor time, which other work of the machine disturbs least, beside the model alone and guesses of n-grams. Texts must
be the same, but those that are drawn with guesses that are drawn, too.

    python bench/llm/train.py build/llm/debian
    python bench/llm/train.py build/llm/debian-draft --teacher build/llm/debian --layers 1 --steps 300
    python bench/llm/draft.py build/llm/debian build/llm/debian-draft             # exits with 1 where a text differs
    python bench/llm/draft.py build/llm/debian build/llm/debian-draft --depth 32

--depth adds layers to the model that add nothing to its text: their last products are of zeros, and are computed all the
same. So a small model that was trained in minutes costs what a deep one does, and guesses are as good as they were."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), os.environ.get("CAMSHAFT_PYTHON_MODULE", str(ROOT / "build/release/python"))]

if __name__ == "__main__":
    import project_python

    project_python.use()

import camshaft.llm
import numpy as np
from camshaft.llm import LLM, SamplingParams
from safetensors.numpy import load_file, save_file

PROMPT, TOKENS = 64, 128
DRAWN = ", drawn"


def deepened(folder, depth, made):
    """The folder's model with `depth` layers, of which the last add nothing."""
    shutil.copytree(folder, made)
    config = json.loads((made / "config.json").read_text())
    tensors, layers = load_file(made / "model.safetensors"), config["num_hidden_layers"]
    first = {name: tensor for name, tensor in tensors.items() if name.startswith("model.layers.0.")}
    for layer in range(layers, depth):
        for name, tensor in first.items():
            is_last = name.endswith(("o_proj.weight", "down_proj.weight"))
            tensors[name.replace(".0.", f".{layer}.", 1)] = np.zeros_like(tensor) if is_last else tensor.copy()
    config["num_hidden_layers"] = depth
    save_file(tensors, made / "model.safetensors")
    (made / "config.json").write_text(json.dumps(config))
    return made


def settings_of(draft):
    yield "the model alone", None
    yield "4 guesses of n-grams", {"method": "ngram", "num_speculative_tokens": 4}
    for guesses in (1, 2, 4):
        config = {"method": "draft_model", "model": draft, "num_speculative_tokens": guesses}
        yield f"{guesses} of the draft", config
        yield f"{guesses} of the draft{DRAWN}", {**config, "draft_sample_method": "probabilistic"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="a folder that train.py wrote")
    parser.add_argument("draft", type=Path, help="a smaller one, with its tokenizer")
    parser.add_argument("--depth", type=int, help="layers of the model, with those that add nothing")
    parser.add_argument("--weights", default="f32")
    parser.add_argument("--sequences", type=int, default=1, help="at once")
    parser.add_argument("--prompts", type=int, default=16, help="beginnings of parts of the text that was held out")
    parser.add_argument("--rounds", type=int, default=3, help="of which the fastest counts; all ways in turn")
    parser.add_argument("--json", type=Path, help="to write")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(dir=options.model.parent) as made:
        model, draft = Path(made) / "model", Path(made) / "draft"
        source = deepened(options.model, options.depth, Path(made) / "deep") if options.depth else options.model
        for folder, target in ((source, model), (options.draft, draft)):
            # In caches of 16 bits the last bits of what a step computes may round to others where it has more tokens.
            camshaft.llm.build(folder, target, weights=options.weights, cache="f32", tuning="heuristic")
        length = PROMPT + TOKENS
        ways = [
            (
                name,
                LLM(model, max_model_len=length, max_num_seqs=options.sequences, threads=1, speculative_config=config),
            )
            for name, config in settings_of(draft)
        ]
        ids = ways[0][1].tokenizer.encode((options.model / "held_out.txt").read_text()).ids
        begins = np.linspace(0, len(ids) - PROMPT, options.prompts).astype(int)
        prompts = [ids[begin : begin + PROMPT] for begin in begins]
        for temperature in (0.0, 0.7):
            params = [
                SamplingParams(temperature=temperature, max_tokens=TOKENS, ignore_eos=True, seed=i, detokenize=False)
                for i in range(len(prompts))
            ]
            seconds, texts, counts = {}, {}, {}
            for _ in range(options.rounds):
                for name, llm in ways:
                    before, begin = llm.statistics(), time.process_time()
                    outputs = llm.generate(prompts, params)
                    seconds[name] = min(seconds.get(name, 1e9), time.process_time() - begin)
                    texts[name] = [output.outputs[0].token_ids for output in outputs]
                    after = llm.statistics()
                    counts[name] = {key: after[key] - before[key] for key in ("drafted", "accepted")}
            alone = ways[0][0]
            for name, _ in ways:
                is_drawn = temperature > 0 and name.endswith(DRAWN)  # of the same distribution, and another text
                if texts[name] != texts[alone] and not is_drawn:
                    sys.exit(f"temperature {temperature}: the texts of {name} are other ones")
                # Of a text's own steps: each adds a token, and the guesses that came true. The prompt's adds the first.
                steps = len(prompts) * (TOKENS - 1) - counts[name]["accepted"]
                per_step = len(prompts) * (TOKENS - 1) / steps
                came_true = counts[name]["accepted"] / max(counts[name]["drafted"], 1)
                rate = len(prompts) * TOKENS / seconds[name]
                faster = seconds[alone] / seconds[name]
                found = {"tokens_per_step": per_step, "accepted": came_true, "tokens_per_second": rate, "times": faster}
                results.append({"temperature": temperature, "way": name, **found})
                print(
                    f"temperature {temperature}, {name}: {per_step:.2f} tokens a step, {100 * came_true:.0f} % came true, "
                    f"{rate:.0f} tokens/s, {faster:.2f} times",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
