"""bench/llm: a decoder that is trained for two steps becomes an engine whose perplexity is that of the trained weights."""

import json
import os
import re
import subprocess
import sys

import pytest
from camshaft_cli import ROOT

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")


def run(*arguments):
    paths = [str(ROOT / "build/release/python"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )


def test_a_trained_model_is_measured(tmp_path):
    folder = tmp_path / "model"
    small = ("--steps", "2", "--batch", "2", "--length", "64", "--megabytes", "0.4")
    trained = run(ROOT / "bench/llm/train.py", folder, *small)
    assert trained.returncode == 0, trained.stderr
    assert {path.name for path in folder.iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "held_out.txt")
    }
    (folder / "held_out.txt").write_text((ROOT / "docs/limits.md").read_text())  # of little text none may be held out
    program = (
        "import sys; sys.path.insert(0, 'bench/llm'); import perplexity, train; from pathlib import Path\n"
        "import camshaft.llm, torch; from safetensors.torch import load_file\n"
        f"folder = Path({str(folder)!r})\n"
        "camshaft.llm.build(folder, folder / 'built', cache='f32', tuning='heuristic')\n"
        "llm = camshaft.llm.LLM(folder / 'built', max_model_len=65)\n"
        "ids = llm.tokenizer.encode((folder / 'held_out.txt').read_text()).ids[:600]\n"
        "print('ours', perplexity.perplexity(llm, ids, 64))\n"
        "model = train.Model()\n"
        "weights = load_file(folder / 'model.safetensors')\n"
        "model.load_state_dict({name.removeprefix('model.'): weight for name, weight in weights.items()})\n"
        "rows = torch.tensor([[0, *ids[at : at + 63]] for at in range(0, len(ids) - 64, 63)])\n"
        "with torch.no_grad():\n"
        "    logits = model(rows[:, :-1]).flatten(0, 1)\n"
        "print('theirs', torch.nn.functional.cross_entropy(logits, rows[:, 1:].flatten()).exp().item())\n"
    )
    said = run("-c", program)
    assert said.returncode == 0, said.stderr
    ours, theirs = (float(re.search(rf"{name} \(?([\d.]+)", said.stdout)[1]) for name in ("ours", "theirs"))
    assert ours == pytest.approx(theirs, rel=1e-4)


def test_a_smaller_model_guesses_for_it(tmp_path):
    small = ("--steps", "2", "--batch", "2", "--length", "64", "--megabytes", "0.4")
    for name, size in (
        ("model", ()),
        ("draft", ("--layers", "1", "--teacher", tmp_path / "model")),
    ):
        trained = run(ROOT / "bench/llm/train.py", tmp_path / name, *small, *size)
        assert trained.returncode == 0, trained.stderr
    (tmp_path / "model/held_out.txt").write_text((ROOT / "docs/limits.md").read_text())
    deep = run(ROOT / "bench/llm/train.py", tmp_path / "other", "--layers", "5")
    assert deep.returncode == 2 and "--layers is 5, it must be from 1 to 4" in deep.stderr
    fast = ("--prompts", "2", "--rounds", "1", "--depth", "6", "--json", tmp_path / "found.json")
    said = run(ROOT / "bench/llm/draft.py", tmp_path / "model", tmp_path / "draft", *fast)
    assert said.returncode == 0, said.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found) == 2 * 5 and all(1 <= each["tokens_per_step"] <= 7 for each in found)
    assert all(each["tokens_per_step"] == 1 for each in found if each["way"] == "the model alone")
