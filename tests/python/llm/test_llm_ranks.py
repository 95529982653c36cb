"""Models in several ranks: the same text as in one, token for token, however the requests run together; and ranks that do
not fit, fail or die."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import camshaft
import camshaft.llm
import numpy as np
import pytest
from camshaft import CorruptEngineError, FileError, InvalidArgumentError, UnsupportedError
from camshaft.llm import LLM, PoolingParams, SamplingParams
from camshaft.llm._folder import read_description
from camshaft.llm._rank_start import start_ranks
from camshaft_cli import BINARY
from llm_folders import LLAMA, llama_tensors, write_llama
from test_llm_gguf import gguf_of_llama
from test_llm_quantized import checkpoint

MODULE = BINARY.parents[1] / "python"
SEED = int(os.environ.get("CAMSHAFT_TEST_SEED", "20251129"))


def build(folder, output, ranks, **options):
    camshaft.llm.build(folder, output, tensor_parallel_size=ranks, **{"tuning": "heuristic", **options})
    return output


def requests_of(count, seed, vocabulary, longest=90):
    """Prompts of which some begin alike, and parameters of all kinds."""
    print(f"CAMSHAFT_TEST_SEED={seed}")
    random = np.random.default_rng(seed)
    beginnings = [random.integers(3, vocabulary, random.integers(1, 40)).tolist() for _ in range(6)]
    prompts, params = [], []
    for i in range(count):
        prompt = beginnings[random.integers(len(beginnings))] if random.random() < 0.4 else []
        prompt = prompt + random.integers(3, vocabulary, random.integers(1, 30)).tolist()
        given = {"max_tokens": int(random.integers(1, min(24, longest - len(prompt)))), "detokenize": False}
        if random.random() < 0.6:
            given["temperature"] = 0
        else:
            given |= {"temperature": float(random.uniform(0.3, 1.5)), "seed": i, "top_k": int(random.integers(0, 9))}
            given["n"] = int(random.integers(1, 3))
        given["logprobs"] = 3
        if random.random() < 0.2:
            given["repetition_penalty"] = 1.2
        prompts.append(prompt)
        params.append(SamplingParams(**given))
    return prompts, params


def texts_of(outputs):
    return [[list(each.token_ids) for each in output.outputs] for output in outputs]


def differing(ones, others, near):
    """How many texts differ. Where they do the two tokens must be as likely to `near`: kernels cut sums by the sizes of a
    product, which are others in ranks, and of logits that are that near either may be the larger one."""
    count = 0
    for one, other in zip(ones, others):
        for a, b in zip(one.outputs, other.outputs):
            if list(a.token_ids) == list(b.token_ids):
                continue
            count += 1
            at = next(i for i, (x, y) in enumerate(zip(a.token_ids, b.token_ids)) if x != y)
            said = a.logprobs[at]
            if a.token_ids[at] in said and b.token_ids[at] in said and one.greedy:
                assert abs(said[a.token_ids[at]].logprob - said[b.token_ids[at]].logprob) < near
    return count


def check_same(ones, others, params, near=1e-4, share=0.01):
    """Of at most one text in a hundred, but always one."""
    for one, of in zip(ones, params):
        one.greedy = of.temperature == 0
    samples = sum(len(each.outputs) for each in ones)
    assert differing(ones, others, near) <= max(share * samples, 1)
    # What is said of the first token, which nothing is behind.
    for one, other in zip(ones, others):
        first, second = one.outputs[0].logprobs[0], other.outputs[0].logprobs[0]
        for token in first.keys() & second.keys():
            assert abs(first[token].logprob - second[token].logprob) < near


@pytest.fixture(scope="module")
def hf(tmp_path_factory):
    """Four heads of queries and two of keys, widths that two and four ranks share out evenly and three do not."""
    return write_llama(tmp_path_factory.mktemp("ranks") / "hf", eos_token_id=None)


@pytest.fixture(scope="module")
def models(hf, tmp_path_factory):
    where = tmp_path_factory.mktemp("ranks")
    return {ranks: build(hf, where / f"of{ranks}", ranks, cache="f32") for ranks in (1, 2, 4)}


def test_mixed_requests_have_the_same_text_on_one_rank_two_and_four(models):
    prompts, params = requests_of(1000, SEED, LLAMA["vocab_size"])
    # Few blocks: sequences are preempted, and blocks of samples copied.
    made = {}
    for ranks, folder in models.items():
        llm = LLM(folder, max_model_len=90, max_num_seqs=16, max_num_batched_tokens=48, num_blocks=24, threads=1)
        made[ranks] = llm.generate(prompts, params)
        assert all(each.finish_reason == "length" for output in made[ranks] for each in output.outputs)
    for ranks in (2, 4):
        check_same(made[1], made[ranks], params, share=0.002)


@pytest.mark.parametrize("alone", [True, False])
def test_batches_and_speculation_change_nothing(models, alone):
    prompts, params = requests_of(40, SEED + 1, LLAMA["vocab_size"])
    wanted = LLM(models[1], max_model_len=90).generate(prompts, params)
    llm = LLM(models[2], max_model_len=90, speculative_config={"method": "ngram", "num_speculative_tokens": 3})
    if alone:
        check_same(wanted, [llm.generate([p], [q])[0] for p, q in zip(prompts, params)], params)
    else:
        check_same(wanted, llm.generate(prompts, params), params)
        assert llm.statistics()["drafted"] > 0


def test_a_draft_model_guesses_beside_rank_0(models):
    prompts, params = requests_of(30, SEED + 5, LLAMA["vocab_size"])
    wanted = LLM(models[1], max_model_len=90).generate(prompts, params)
    guesses = {"method": "draft_model", "model": models[1], "num_speculative_tokens": 3}
    llm = LLM(models[2], max_model_len=90, speculative_config=guesses)
    check_same(wanted, llm.generate(prompts, params), params)
    assert llm.statistics()["accepted"] > 0


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    "changes, meetings",
    [
        ({}, 2),
        # No multiple of the ranks: what reads it is cut by its outputs, as elsewhere.
        ({"intermediate_size": 98}, {2: 2, 4: 3}),
        ({"attention_bias": True, "mlp_bias": True}, 2),
    ],
)
def test_products_that_are_cut_by_their_inputs(tmp_path, ranks, changes, meetings):
    """Two meetings a layer, and one each for the embeddings and the logits."""
    tensors = llama_tensors({**LLAMA, **changes}, np.random.default_rng(4))
    if changes.get("attention_bias"):
        tensors |= biases_of(tensors, np.random.default_rng(12))
    folder = write_llama(tmp_path / "hf", tensors, eos_token_id=None, **changes)
    prompts, params = requests_of(60, SEED + 8, LLAMA["vocab_size"])
    one = LLM(build(folder, tmp_path / "1", 1, cache="f32"), max_model_len=90)
    other = LLM(build(folder, tmp_path / "n", ranks, cache="f32", row_parallel=True), max_model_len=90)
    check_same(one.generate(prompts, params), other.generate(prompts, params), params)
    layers = camshaft.Engine(tmp_path / "n" / "model.rank0.engine").layers()
    each = meetings if isinstance(meetings, int) else meetings[ranks]
    assert sum(layer["op"] == "collective" for layer in layers) == 2 + each * LLAMA["num_hidden_layers"]


def biases_of(tensors, random):
    """Of all products of the layers."""
    return {
        name.replace(".weight", ".bias"): random.standard_normal(len(array), np.float32)
        for name, array in tensors.items()
        if "_proj" in name
    }


def test_models_of_experts_that_are_cut_by_their_inputs(tmp_path):
    experts = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 48}
    random = np.random.default_rng(13)
    tensors = {n: x for n, x in llama_tensors({**LLAMA, **experts}, random).items() if ".mlp." not in n}
    for layer in range(LLAMA["num_hidden_layers"]):
        shapes = {"gate": (4, 64)}
        shapes |= {f"experts.{e}.w{w}": (64, 48) if w == 2 else (48, 64) for e in range(4) for w in (1, 2, 3)}
        for name, shape in shapes.items():
            full = f"model.layers.{layer}.block_sparse_moe.{name}.weight"
            tensors[full] = random.standard_normal(shape, np.float32) / np.float32(8)
    folder = write_llama(tmp_path / "hf", tensors, eos_token_id=None, **experts)
    prompts, params = requests_of(30, SEED + 9, LLAMA["vocab_size"])
    made = [
        LLM(build(folder, tmp_path / str(n), n, cache="f32", row_parallel=n > 1), max_model_len=90).generate(
            prompts, params
        )
        for n in (1, 2)
    ]
    check_same(*made, params)


# What rounds to few bits makes more of the last ones.
ROUNDED = {"near": 0.2, "share": 0.2}


@pytest.mark.parametrize(
    "changes, options, ranks, most",
    [
        ({"num_key_value_heads": 1}, {"cache": "f32"}, 4, {}),  # ranks share the key head
        ({}, {"weights": "int8", "cache": "int8"}, 2, ROUNDED),
        ({}, {"weights": "int8", "activations": "f32", "cache": "f32"}, 2, {}),
        ({"tie_word_embeddings": True}, {"weights": "int4", "activations": "f32", "cache": "f32"}, 2, {}),
        ({"tie_word_embeddings": True}, {"weights": "int4", "cache": "fp8"}, 2, ROUNDED),
        ({"tie_word_embeddings": True}, {"weights": "f16"}, 2, {"near": 5e-3, "share": 0.03}),
        ({"tie_word_embeddings": True, "vocab_size": 81}, {"block_size": 4, "cache": "f32"}, 4, {}),
        # No multiples of the ranks.
        ({"vocab_size": 83, "intermediate_size": 97}, {"weights": "bf16", "cache": "f32"}, 2, {}),
        ({"vocab_size": 83, "intermediate_size": 96}, {"weights": "int4", "activations": "f32", "cache": "f32"}, 4, {}),
    ],
)
def test_other_heads_weights_and_caches(tmp_path, changes, options, ranks, most):
    config = {**LLAMA, "eos_token_id": None, **changes}
    tensors = llama_tensors(config, np.random.default_rng(5))
    if changes.get("num_key_value_heads") == 1:
        tensors = {n: x[:16] if ".k_proj" in n or ".v_proj" in n else x for n, x in tensors.items()}
    folder = write_llama(tmp_path / "hf", tensors, **{"eos_token_id": None, **changes})
    prompts, params = requests_of(60, SEED + 2, config["vocab_size"])
    made = [
        LLM(build(folder, tmp_path / str(n), n, **options), max_model_len=90, max_num_seqs=8).generate(prompts, params)
        for n in (1, ranks)
    ]
    check_same(*made, params, **most)


@pytest.mark.parametrize(
    "method, bits, size, more",
    [
        ("awq", 4, 32, {}),
        ("gptq", 4, 32, {"act_order": True}),
        ("compressed-tensors", 8, -1, {}),
        ("gguf", 8, 32, {}),
    ],
)
def test_quantised_checkpoints(tmp_path, method, bits, size, more):
    folder = tmp_path / "hf"
    if method == "gguf":
        folder = tmp_path / "tiny.gguf"
        folder.write_bytes(gguf_of_llama(llama_tensors(LLAMA, np.random.default_rng(0)), LLAMA)[0])
    else:
        checkpoint(method, bits, size, folder, **more)
    prompts, params = requests_of(30, SEED + 6, LLAMA["vocab_size"])
    options = {"activations": "f32", "cache": "f32"}
    made = [
        LLM(build(folder, tmp_path / str(n), n, **options), max_model_len=90).generate(prompts, params) for n in (1, 2)
    ]
    check_same(*made, params)


def test_three_ranks_share_three_heads(tmp_path):
    """Of a width, an MLP and a vocabulary that three ranks do not share out evenly."""
    folder = write_llama(tmp_path / "hf", _with_three_heads(), eos_token_id=None, **THREE_HEADS)
    prompts, params = requests_of(40, SEED + 3, LLAMA["vocab_size"])
    made = [
        LLM(build(folder, tmp_path / str(n), n, cache="f32"), max_model_len=90).generate(prompts, params)
        for n in (1, 3)
    ]
    check_same(*made, params)


THREE_HEADS = {"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 16}


def _with_three_heads():
    made = llama_tensors(LLAMA, np.random.default_rng(6))
    random = np.random.default_rng(7)
    for name in made:
        if "_proj" in name and "self_attn" in name:
            shape = (64, 48) if ".o_proj" in name else (48, 64)
            made[name] = random.standard_normal(shape, np.float32) / np.float32(8)
    return made


def test_each_rank_has_its_part(models):
    alone = camshaft.Engine(models[1] / "model.engine")
    ranks = [camshaft.Engine(models[2] / f"model.rank{rank}.engine") for rank in range(2)]
    shapes = {info.name: info.shape for info in ranks[0].inputs}
    assert shapes["key_cache.1"] == (-1, 16, 1, 16)
    assert json.loads((models[2] / "llm.json").read_text())["tensor_parallel_size"] == 2
    assert sorted(os.listdir(models[2])) == ["llm.json", "model.rank0.engine", "model.rank1.engine"]
    whole = alone.memory()["weight_bytes"]
    for rank in ranks:
        assert rank.memory()["weight_bytes"] < 0.55 * whole
        assert rank.inspect()["ranks"] == 2
    with pytest.raises(InvalidArgumentError, match="one of 2 ranks, and its context has no communicator"):
        ranks[0].run(
            {info.name: np.zeros([max(d, 1) for d in info.shape], _TYPES[info.dtype]) for info in ranks[0].inputs}
        )


_TYPES = {"i32": np.int32, "f32": np.float32}


def test_embeddings_of_ranks_are_those_of_one(hf, tmp_path):
    random = np.random.default_rng(8)
    prompts = [random.integers(3, LLAMA["vocab_size"], length).tolist() for length in (1, 7, 40)]
    vectors = []
    for ranks in (1, 2):
        llm = LLM(build(hf, tmp_path / str(ranks), ranks, task="embed"))
        vectors.append([each.outputs.embedding for each in llm.embed(prompts, PoolingParams())])
    for one, other in zip(*vectors):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_what_does_not_fit_is_named(hf, models, tmp_path):
    for ranks, error in [(3, InvalidArgumentError), (0, InvalidArgumentError), (True, InvalidArgumentError)]:
        with pytest.raises(error, match="tensor_parallel_size is"):
            build(hf, tmp_path / "out", ranks)
    with pytest.raises(InvalidArgumentError, match="tensor_parallel_size is 2; .* was built for 1"):
        LLM(models[1], tensor_parallel_size=2)
    with pytest.raises(InvalidArgumentError, match="distributed_executor_backend is 'ray'"):
        LLM(models[2], distributed_executor_backend="ray")
    with pytest.raises(InvalidArgumentError, match="was built for several ranks: a draft model runs in one"):
        LLM(models[1], speculative_config={"method": "draft_model", "model": models[2], "num_speculative_tokens": 2})
    with pytest.raises(InvalidArgumentError, match="was built for one rank"):
        LLM(models[1], distributed_executor_backend="mp")
    from whisper_folders import write_whisper

    with pytest.raises(UnsupportedError, match="run in one rank"):
        build(write_whisper(tmp_path / "whisper"), tmp_path / "out", 2)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "llm.json").write_bytes((models[2] / "llm.json").read_bytes())
    (broken / "model.rank0.engine").write_bytes((models[2] / "model.rank0.engine").read_bytes())
    with pytest.raises(FileError, match=r"model\.rank1\.engine"):
        LLM(broken)
    (broken / "model.rank1.engine").write_bytes((models[1] / "model.engine").read_bytes())
    with pytest.raises(CorruptEngineError, match=r"model\.rank1\.engine is of another build than"):
        LLM(broken)


@pytest.mark.parametrize("backend", ["threads", "mp"])
def test_ranks_of_different_builds_are_told_apart(hf, models, tmp_path, capfd, backend):
    """They would fit together, and give another text."""
    mixed = tmp_path / "mixed"
    shutil.copytree(models[2], mixed)
    other = write_llama(tmp_path / "hf", llama_tensors(LLAMA, np.random.default_rng(9)), eos_token_id=None)
    build(other, tmp_path / "other", 2)
    shutil.copy(tmp_path / "other" / "model.rank1.engine", mixed)
    with pytest.raises(camshaft.Error, match="rank") as raised:
        LLM(mixed, distributed_executor_backend=backend)
    assert "model.rank1.engine is of another build than" in str(raised.value) + capfd.readouterr().err
    build(hf, mixed, 2)  # the whole folder is of one again
    LLM(mixed).generate([[5, 6]], SamplingParams(max_tokens=2, detokenize=False))


def processes_of(parent):
    """Those that it has started and that live."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


def rank_processes():
    return [
        each for each in processes_of(os.getpid()) if b"_rank_process" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]


def wait_for(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_ranks_in_processes(models):
    prompts, params = requests_of(100, SEED + 4, LLAMA["vocab_size"])
    wanted = LLM(models[1], max_model_len=90).generate(prompts, params)
    llm = LLM(models[4], max_model_len=90, distributed_executor_backend="mp")
    assert len(rank_processes()) == 3
    check_same(wanted, llm.generate(prompts, params), params)
    del llm
    wait_for(lambda: not rank_processes())  # they end with it


def test_the_servers_model_may_be_of_processes(models):
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    from camshaft.llm.openai._loading import load

    parameters = {"distributed_executor_backend": "mp", "max_model_len": "90", "threads": "1"}
    served, _ = load(models[2], "two", parameters, models[2])
    assert len(rank_processes()) == 1
    del served
    wait_for(lambda: not rank_processes())
    with pytest.raises(InvalidArgumentError, match="distributed_executor_backend is 'ray'"):
        load(models[2], "two", {"distributed_executor_backend": "ray"}, models[2])


def test_ranks_share_out_cores(models):
    cores = next(each["cores"] for each in camshaft.devices() if each["kind"] == "cpu")
    for given, wanted in ((None, max(cores // 4, 1)), (3, 3)):
        description = read_description(models[4])
        assert start_ranks(models[4], description, None, None, None, given).threads == wanted
        llm = LLM(models[4], max_model_len=90, distributed_executor_backend="mp", threads=given)
        for each in rank_processes():
            assert f"--threads\0{wanted}\0" in Path(f"/proc/{each}/cmdline").read_text()
        del llm
        wait_for(lambda: not rank_processes())


def test_what_fails_leaves_no_ranks(models, monkeypatch, capfd):
    mp = {"distributed_executor_backend": "mp"}
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a process was started"))
        for wrong, words in (
            ({"max_model_len": 10**6}, "the model was built for"),
            ({"speculative_config": {"method": "guess"}}, "the method 'guess' is none"),
        ):
            with pytest.raises(InvalidArgumentError, match=words):
                LLM(models[2], **mp, **wrong)
    with pytest.raises(InvalidArgumentError, match="num_blocks is 1: no text"):
        LLM(models[2], **mp, num_blocks=1)
    wait_for(lambda: not rank_processes(), 10)
    assert "rank 0 has no model: num_blocks is 1" in capfd.readouterr().err


def test_a_rank_that_dies_ends_the_requests(models):
    llm = LLM(models[2], max_model_len=90, distributed_executor_backend="mp")
    llm.generate([[5, 6]], SamplingParams(max_tokens=2, detokenize=False))
    [other] = rank_processes()
    began = time.monotonic()
    long = SamplingParams(max_tokens=80, ignore_eos=True, detokenize=False)
    next(llm.stream([[5, 6, 7]], long))
    os.kill(other, signal.SIGKILL)
    for _ in range(2):  # then and later
        [output] = llm.generate([[5, 6, 7]], long)
        assert output.outputs[0].finish_reason == "error"
        assert "rank 1 has died" in output.outputs[0].error
    assert time.monotonic() - began < 20


def test_ranks_end_with_a_killed_rank_0(models):
    script = textwrap.dedent(f"""
        import time
        from camshaft.llm import LLM
        llm = LLM({str(models[2])!r}, max_model_len=90, distributed_executor_backend="mp")
        print("here", flush=True)
        time.sleep(600)
    """)
    environment = {**os.environ, "PYTHONPATH": str(MODULE)}
    first = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert first.stdout.readline() == "here\n"
        [other] = processes_of(first.pid)
        first.kill()
        wait_for(lambda: not Path(f"/proc/{other}").exists())
    finally:
        first.kill()
        first.wait()
        first.stdout.close()


SPMD = """
import json, os, sys
import camshaft.llm
folder = sys.argv[1]
if int(os.environ["RANK"]) > 0:
    camshaft.llm.run_rank(folder)
else:
    llm = camshaft.llm.LLM(folder, max_model_len=90, distributed_executor_backend="external_launcher")
    prompts, params = json.loads(sys.argv[2]), camshaft.llm.SamplingParams(temperature=0, max_tokens=9, detokenize=False)
    print(json.dumps([list(each.outputs[0].token_ids) for each in llm.generate(prompts, params)]), flush=True)
"""


def started(rank, size, port, *arguments, script=SPMD):
    """As torchrun starts a rank."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(MODULE),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_ranks_that_torchrun_has_started(models):
    prompts = [[5, 6, 7], [8], list(range(3, 40))]
    params = SamplingParams(temperature=0, max_tokens=9, detokenize=False)
    wanted = [each[0] for each in texts_of(LLM(models[1], max_model_len=90).generate(prompts, params))]
    ranks = [started(rank, 2, 100000 + os.getpid(), models[2], json.dumps(prompts)) for rank in range(2)]
    outputs = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert json.loads(outputs[0][0]) == wanted


def test_interrupts_end_what_waits_for_other_ranks(models):
    """Ctrl-C of who waits for one that never comes, and of one that follows."""
    port = 100000 + os.getpid()
    alone = started(1, 2, port, models[2], "[]")
    memory = Path(f"/dev/shm/camshaft-{os.getuid()}-port-{port}")
    end = time.monotonic() + 60
    while not memory.exists() and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(1.5)  # until it waits
    alone.send_signal(signal.SIGINT)
    said = alone.communicate(timeout=20)
    assert "KeyboardInterrupt" in said[1], said
    assert not memory.exists()
    script = SPMD + "    time.sleep(600)\n"
    prompts = json.dumps([[5, 6]])
    ranks = [started(rank, 2, port, models[2], prompts, script="import time\n" + script) for rank in range(2)]
    assert json.loads(ranks[0].stdout.readline())
    ranks[1].send_signal(signal.SIGINT)
    said = ranks[1].communicate(timeout=20)
    assert "KeyboardInterrupt" in said[1], said
    ranks[0].kill()
    ranks[0].communicate(timeout=20)


def test_ranks_that_are_started_wrongly_are_told(models, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidArgumentError, match="the environment has no RANK: start the ranks by torchrun"):
        LLM(models[2], distributed_executor_backend="external_launcher")
    with pytest.raises(InvalidArgumentError, match="the environment has no RANK"):
        camshaft.llm.run_rank(models[2])
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(InvalidArgumentError, match="rank 0 has the LLM"):
        LLM(models[2], distributed_executor_backend="external_launcher")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(InvalidArgumentError, match="RANK is 0"):
        camshaft.llm.run_rank(models[2])


def test_the_command_builds_ranks(hf, tmp_path):
    command = [str(BINARY), "llm", "build", str(hf), "-o", str(tmp_path / "out"), "--tensor-parallel-size", "2"]
    environment = {**os.environ, "PYTHONPATH": str(MODULE), "VIRTUAL_ENV": sys.prefix}
    done = subprocess.run(
        [*command, "--build-option", "tuning=heuristic"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "model.rank0.engine" in done.stdout
    assert "model.rank1.engine" in done.stdout
    LLM(tmp_path / "out", max_model_len=90).generate([[5, 6]], SamplingParams(max_tokens=2, detokenize=False))
