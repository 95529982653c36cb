"""What strangers do: outputs that are closed or full, damaged files of a built folder, arguments of wrong types. Each ends in
one clear message."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import camshaft
import numpy as np
import pytest
from camshaft.llm import LLM, SamplingParams
from camshaft_cli import BINARY
from llm_folders import write_chat_llama
from whisper_folders import sound, write_wav, write_whisper

pytest.importorskip("tokenizers", reason="tokenizers is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")


HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    path = tmp_path_factory.mktemp("misuse")
    write_chat_llama(path / "hf")
    camshaft.llm.build(path / "hf", path / "model", cache="f32", tuning="heuristic")
    camshaft.llm.build(write_whisper(path / "hf-whisper"), path / "whisper", tuning="heuristic")
    write_wav(path / "talk.wav", sound(1, 1))
    return path


@pytest.fixture
def folder(places, tmp_path):
    """A copy, to be damaged."""
    shutil.copytree(places / "model", tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(scope="module")
def llm(places):
    return LLM(places / "model")


def commands(places, tmp_path):
    bench = ["--input-len", "4", "--output-len", "8", "--num-prompts", "2", "--max-num-seqs", "1"]
    hears = [places / "whisper", places / "talk.wav", places / "talk.wav", "--language", "en", "--max-tokens", "3"]
    return {
        "build": ["build", places / "hf", "-o", tmp_path / "out", "--build-option", "tuning=heuristic"],
        "chat": ["chat", places / "model", "--max-tokens", "3", "--temperature", "0"],
        "bench": ["bench", places / "model", *bench],
        "transcribe": ["transcribe", *hears],
        "help": ["chat", "--help"],
    }


def shell(line, arguments, unbuffered=False):
    """line: of bash, in which "$@" is the command."""
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1" if unbuffered else ""}
    command = ["bash", "-c", line, "bash", str(BINARY), "llm", *map(str, arguments)]
    return subprocess.run(command, input="the engine\n", capture_output=True, text=True, env=environment, timeout=120)


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("command", ["build", "chat", "bench", "transcribe", "help"])
def test_outputs_that_cannot_be_written(places, tmp_path, command, unbuffered):
    arguments = commands(places, tmp_path)[command]
    for line, why in (
        ('"$@" >/dev/full', "No space left on device"),
        ('"$@" >&-', "Bad file descriptor"),
        # Nobody reads the pipe: its reader has ended before anything is written.
        ('exec 4> >(exec true); sleep 0.3; "$@" >&4', "Broken pipe"),
    ):
        done = shell(line, arguments, unbuffered)
        assert done.returncode == 5, (line, done)
        assert done.stderr == f"camshaft: error: the standard output could not be written ({why})\n", line
    if command == "build":
        assert (tmp_path / "out/llm.json").exists()


@pytest.mark.parametrize("command", ["chat", "bench", "transcribe"])
def test_other_streams_may_be_closed(places, tmp_path, command):
    arguments = commands(places, tmp_path)[command]
    whole = shell('"$@"', arguments)
    assert whole.returncode == 0 and whole.stdout, whole.stderr
    for line in ('"$@" 2>&-', '"$@" 2>/dev/full'):
        done = shell(line, arguments)
        assert done.returncode == 0, (line, done)
        assert command == "bench" or done.stdout == whole.stdout
    done = shell('"$@" <&-', arguments)  # reads as empty
    assert done.returncode == 0 and done.stderr == ""
    # What is wrong is no part of the output, where nobody hears of it.
    wrong = shell('"$@" 2>&-', [arguments[0], tmp_path / "gone", *arguments[2:]])
    assert wrong.returncode == 5 and wrong.stdout == ""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-", ">/dev/full 2>/dev/full"])
def test_a_server_needs_no_streams(places, closed, tmp_path):
    """Sockets would take the numbers of those that are closed, and what is written there would go to clients."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    said = tmp_path / "said"
    line = f"trap '' HUP; exec \"$@\" 2>{said} {closed}"
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable}
    port = url.rpartition(":")[2]
    command = ["bash", "-c", line, "bash", str(BINARY), "llm", "serve", str(places / "model"), "--port", port]
    server = subprocess.Popen(command, env=environment)
    try:
        end = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(url + "/v2/health/ready", timeout=5):
                    break
            except OSError:
                assert server.poll() is None and time.monotonic() < end
                time.sleep(0.1)
        for _ in range(3):
            body = json.dumps({"prompt": "the engine", "max_tokens": 3, "ignore_eos": True}).encode()
            with urllib.request.urlopen(url + "/v1/completions", body, timeout=60) as response:
                assert json.load(response)["usage"]["completion_tokens"] == 3
    finally:
        server.terminate()
        assert server.wait(60) == 0
    assert not said.exists() or "Traceback" not in said.read_text()


@pytest.mark.parametrize(
    "name, content",
    [
        (name, content)
        for name in ("llm.json", "tokenizer.json", "tokenizer_config.json")
        for content in (b"", b"{", b"[]", b"\xff\xfe", b"\0" * 300, b"[" * 100_000, b"{}")
        if (name, content) != ("tokenizer_config.json", b"{}")  # which is a file without a chat template
    ],
)
def test_damaged_files_are_named(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(camshaft.Error) as caught:
        LLM(folder).chat([{"role": "user", "content": "the engine"}], SamplingParams(max_tokens=2))
    assert str(folder / name) in str(caught.value) and len(str(caught.value)) < 500
    done = shell('"$@"', ["chat", folder])
    assert done.returncode in (3, 5) and str(folder / name) in done.stderr, done
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["max_length", "vocabulary"])
def test_fields_that_are_missing_are_named(folder, name):
    described = json.loads((folder / "llm.json").read_text())
    del described[name]
    (folder / "llm.json").write_text(json.dumps(described))
    for command in (["chat", folder], ["bench", folder]):
        done = shell('"$@"', command)
        assert done.returncode == 5 and f"{folder / 'llm.json'}: '{name}' is missing" in done.stderr, done


def test_numbers_may_be_of_numpy(places):
    sizes = {name: np.int32(64) for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "num_blocks")}
    llm = LLM(places / "model", **sizes, seed=np.uint64(3), kv_offloading_size=np.float32(0.001))
    assert llm.statistics()["blocks"] == 64 and llm.statistics()["host_blocks"] > 0
    given = {"n": 2, "max_tokens": 4, "seed": 5, "temperature": 0.5, "top_p": 0.75, "allowed_token_ids": [5, 6, 7]}
    arrays = {name: np.array(value)[()] for name, value in given.items()}
    ours, theirs = (llm.generate([[1, 2]], SamplingParams(**each, detokenize=False))[0] for each in (arrays, given))
    assert [o.token_ids for o in ours.outputs] == [o.token_ids for o in theirs.outputs]


def test_wrong_types_are_named(places, llm):
    model = places / "model"
    for attempt, words in [
        (lambda: LLM(model, speculative_config=[]), r"speculative_config is \[\]; a dict is needed"),
        (lambda: LLM(model, speculative_config="ngram"), "speculative_config is 'ngram'; a dict is needed"),
        (lambda: LLM(model, max_num_seqs="8"), "max_num_seqs is '8'; a whole number is needed"),
        (lambda: LLM(model, max_num_batched_tokens=None), "max_num_batched_tokens is None; a whole number is needed"),
        (lambda: LLM(model, max_model_len=32.0), "max_model_len is 32.0; a whole number is needed"),
        (lambda: LLM(model, threads="all"), "threads is 'all'; a whole number is needed"),
        (lambda: LLM(model, num_blocks=[1]), r"num_blocks is \[1\]; a whole number is needed"),
        (lambda: LLM(model, seed="x"), "seed is 'x'; a whole number is needed"),
        (lambda: LLM(3), "model is 3"),
        (lambda: LLM(model, threads=10**6), "threads is 1000000, at most 1024"),
        (lambda: LLM(model, enable_prefix_caching=3), "enable_prefix_caching is 3; True or False is needed"),
        (lambda: LLM(model, kv_offloading_size="8"), "kv_offloading_size is '8'; a number from 0 on"),
        (lambda: LLM(model, kv_offloading_size=-1), "kv_offloading_size is -1; a number from 0 on"),
        (lambda: LLM(model, kv_offloading_size=8 << 30), "kv_offloading_size is 8589934592 GiB, and this machine has"),
        (lambda: LLM(model, kv_offloading_size=1e300), r"kv_offloading_size is 1e\+300 GiB, and this machine has"),
        (lambda: LLM(model, kv_offloading_size=1, enable_prefix_caching=False), "leave enable_prefix_caching true"),
        (lambda: LLM(model, gpu_memory_utilization=0.9), "LLM has no gpu_memory_utilization: kv_cache_memory_bytes"),
        (lambda: LLM(model, dtype="half"), "LLM has no dtype: that is chosen when the model is built"),
        (lambda: LLM(model, swap_space=4), "LLM has no swap_space: kv_offloading_size"),
        (lambda: SamplingParams(bad_words=["x"]), "SamplingParams has no bad_words: logit_bias"),
        (lambda: SamplingParams(logits_processors=[]), "SamplingParams has no logits_processors: token_mask"),
        (lambda: SamplingParams(temperature=True), "temperature is True; a number is needed"),
        (lambda: SamplingParams(top_k=1.5), "top_k is 1.5; a whole number is needed"),
        (lambda: SamplingParams(ignore_eos="yes"), "ignore_eos is 'yes'; True or False is needed"),
        (lambda: SamplingParams(logprobs="all"), "logprobs is 'all'; a whole number is needed"),
        (lambda: SamplingParams(truncate_prompt_tokens=0), "truncate_prompt_tokens is 0"),
        (lambda: llm.generate([[2**70]]), f"a prompt has the token {2**70}, which no vocabulary has"),
        (lambda: llm.generate([[-(2**70)]]), "which no vocabulary has"),
        (lambda: llm.generate([[1.5]]), "a prompt is a text or a list"),
        (lambda: llm.generate(None), "prompts are texts or lists"),
        (lambda: llm.generate([[1]], {"max_tokens": 3}), "sampling_params are SamplingParams"),
        (lambda: llm.generate([[1]], priority=["x"]), "priority is 'x'; a whole number is needed"),
        (lambda: llm.generate([[1]], priority=3), "priority is 3; a list of whole numbers is needed"),
        (lambda: llm.generate([[1]], SamplingParams(n="2")), "n is '2'; a whole number is needed"),
        (lambda: SamplingParams(temperature="hot"), "temperature is 'hot'; a number is needed"),
        (lambda: SamplingParams(max_tokens="8"), "max_tokens is '8'; a whole number is needed"),
        (lambda: SamplingParams(stop=[3]), "stop is"),
        (lambda: SamplingParams(stop=7), "stop is"),
        (lambda: llm.generate([[1]], SamplingParams(logit_bias=[1])), "logit_bias is"),
        (lambda: llm.generate([[1]], SamplingParams(logit_bias={"a": "b"})), "logit_bias is"),
        (lambda: llm.generate([[1]], SamplingParams(stop_token_ids=3)), "stop_token_ids is 3"),
        (lambda: llm.generate([[1]], SamplingParams(allowed_token_ids=["a"])), "allowed_token_ids"),
        (lambda: llm.chat("hello"), "messages are dicts"),
        (lambda: llm.chat(5), "messages are dicts of .*, in a list, not 5"),
        (lambda: llm.chat([5]), "messages are dicts of .*, in a list, not 5"),
        (lambda: llm.chat_prompt(HELLO, chat_template_kwargs=5), "chat_template_kwargs is 5; a dict"),
        (lambda: llm.chat_prompt(HELLO, chat_template_kwargs={"image_placeholder": "x"}), "has 'image_placeholder'"),
    ]:
        with pytest.raises((ValueError, TypeError), match=words) as caught:
            attempt()
        assert len(str(caught.value)) < 500 and isinstance(caught.value, (camshaft.Error, ValueError)), words
    assert llm.generate([[1]], SamplingParams(max_tokens=2, ignore_eos=True))[0].outputs[0].token_ids


def test_programs_for_vllm_may_pass_what_changes_nothing(llm):
    params = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True)
    [plain] = llm.generate([[1, 2, 3]], params, use_tqdm=True)
    [cut] = llm.generate([[9, 9, 1, 2, 3]], SamplingParams(**{**vars(params), "truncate_prompt_tokens": 3}))
    assert cut.outputs[0].token_ids == plain.outputs[0].token_ids and cut.prompt_token_ids == [1, 2, 3]
    [short] = llm.generate([[5] * 10_000], SamplingParams(max_tokens=1, truncate_prompt_tokens=-1))
    assert len(short.prompt_token_ids) == llm.description["max_length"] - 1


def test_a_bench_measures_where_steps_end(places):
    """A reader that is late sees many outputs at once: that made decoding look as fast as one likes."""
    done = shell('"$@"', ["bench", places / "model", "--json", "--input-len", "4", "--output-len", "40", "--num-prompts",
                          "8", "--max-num-seqs", "1", "8", "--threads", "1"])  # fmt: skip
    assert done.returncode == 0, done.stderr
    for each in json.loads(done.stdout)["results"]:
        seqs = each["max_num_seqs"]
        # All of a step's tokens in the median time between two of one text, within what a busy machine changes.
        of_steps = 1000 * seqs / each["itl_ms_p50"]
        assert 0.1 < each["decode_tokens_per_second"] / of_steps < 3, each
