"""Text by an engine: what LLM gives, at once, in steps and in event loops, beside a plain computation in NumPy."""

import asyncio
import gc
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import camshaft
import numpy as np
import pytest
import tiny_decoder
from camshaft.llm import LLM, SamplingParams

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

VOCABULARY = 300
TEXTS = [
    "The engine turns the shaft, and the shaft turns the wheels.",
    "A valve opens; a valve closes.",
    "Öl läuft über",
]


@pytest.fixture(scope="module")
def weights():
    return tiny_decoder.weights_of(VOCABULARY)


@pytest.fixture(scope="module")
def engine(weights):
    return tiny_decoder.engine_of(weights)


@pytest.fixture(scope="module")
def folder(engine, tmp_path_factory):
    """As `camshaft llm build` makes it, with a tokenizer of bytes and their pairs."""
    path = tmp_path_factory.mktemp("llm") / "model"
    path.mkdir()
    engine.save(path / "model.engine")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<end>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    made.save(str(path / "tokenizer.json"))
    (path / "llm.json").write_text(json.dumps({"max_length": 128, "eos_ids": [0], "vocabulary": VOCABULARY}))
    return path


@pytest.fixture(scope="module", params=["in turn", "beside"])
def llm(folder, request):
    """beside: what a step gave is taken while the next one runs, as on GPUs."""
    made = LLM(folder)
    made._steps._overlaps = request.param == "beside"
    return made


def greedy(count, **more):
    return SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, **more)


@pytest.mark.parametrize("finds_likeliest", [False, True])
def test_greedy_text_is_that_of_a_plain_computation(engine, weights, finds_likeliest):
    if finds_likeliest:
        engine = tiny_decoder.engine_of(weights, True)
    random = np.random.default_rng(3)
    prompts = [random.integers(1, VOCABULARY, n).tolist() for n in (1, 3, 4, 5, 17, 40)]
    expected = [tiny_decoder.greedy_text(weights, prompt, 12) for prompt in prompts]
    for setting in (
        {},
        {"max_num_seqs": 2, "max_num_batched_tokens": 7},
        {"num_blocks": 14, "enable_prefix_caching": False},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}},
    ):
        model = LLM(engine, max_model_len=56, **setting)
        for _ in range(2):  # the second time beginnings of prompts are there
            outputs = model.generate(prompts, greedy(12))
            assert [o.outputs[0].token_ids for o in outputs] == expected, setting
        assert all(o.finished and o.outputs[0].finish_reason == "length" for o in outputs)
        assert [o.prompt_token_ids for o in outputs] == prompts


@pytest.mark.parametrize("cache", ["i8", "f8e4m3"])
def test_greedy_text_of_a_cache_of_8_bits_is_the_same_however_it_is_computed(weights, cache):
    engine = tiny_decoder.engine_of(weights, True, cache=cache)
    random = np.random.default_rng(3)
    prompts = [random.integers(1, VOCABULARY, n).tolist() for n in (1, 3, 4, 5, 17, 40)]
    expected = [LLM(engine, max_model_len=56).generate([p], greedy(12))[0].outputs[0].token_ids for p in prompts]
    exact = [tiny_decoder.greedy_text(weights, prompt, 12) for prompt in prompts]
    assert sum(a[0] == b[0] for a, b in zip(expected, exact)) >= 5
    for setting in (
        {},
        {"max_num_seqs": 2, "max_num_batched_tokens": 7},
        {"num_blocks": 14, "enable_prefix_caching": False},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}},
    ):
        model = LLM(engine, max_model_len=56, **setting)
        for _ in range(2):  # the second time beginnings of prompts are there
            outputs = model.generate(prompts, greedy(12))
            assert [o.outputs[0].token_ids for o in outputs] == expected, setting
    # Samples of one prompt share its blocks, whose last one is copied, with its scales.
    drawn = SamplingParams(n=3, seed=11, max_tokens=10, top_k=50, ignore_eos=True)
    model = LLM(engine, max_model_len=56)
    together = [o.token_ids for o in model.generate([prompts[3]], drawn)[0].outputs]
    apart = (
        LLM(engine, max_model_len=56, max_num_seqs=3, max_num_batched_tokens=4).generate([prompts[3]], drawn)[0].outputs
    )
    assert together == [o.token_ids for o in apart] and len({tuple(ids) for ids in together}) > 1


def test_logprobs_are_those_of_a_plain_computation(engine, weights):
    prompt = [5, 9, 200, 31, 7]
    model = LLM(engine, max_model_len=56)
    [output] = model.generate(prompt, greedy(4, logprobs=3, prompt_logprobs=2))
    ids = prompt + output.outputs[0].token_ids
    logits = tiny_decoder.logits_of(weights, ids)
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for place, by_token in enumerate(output.outputs[0].logprobs):
        row = expected[len(prompt) - 1 + place]
        assert list(by_token) == np.argsort(-row)[:3].tolist()
        for token, logprob in by_token.items():
            assert logprob.logprob == pytest.approx(row[token], abs=1e-4)
            assert logprob.rank == 1 + int((row > row[token]).sum())
    chosen = [expected[len(prompt) - 1 + i][token] for i, token in enumerate(output.outputs[0].token_ids)]
    assert output.outputs[0].cumulative_logprob == pytest.approx(sum(chosen), abs=1e-3)
    assert output.prompt_logprobs[0] is None and len(output.prompt_logprobs) == len(prompt)
    for place, by_token in enumerate(output.prompt_logprobs[1:]):
        assert by_token[prompt[place + 1]].logprob == pytest.approx(expected[place][prompt[place + 1]], abs=1e-4)
        assert 2 <= len(by_token) <= 3


def test_text_goes_in_and_out(llm):
    outputs = llm.generate(["The engine", "Öl"], greedy(20))
    for output, prompt in zip(outputs, ["The engine", "Öl"]):
        assert output.prompt == prompt
        assert output.prompt_token_ids == llm.tokenizer.encode(prompt).ids
        one = output.outputs[0]
        whole = llm.tokenizer.decode(output.prompt_token_ids + one.token_ids)
        assert prompt + one.text == whole


def test_a_stop_string_ends_the_text(llm):
    [free] = llm.generate("The valve", greedy(40))
    text = free.outputs[0].text
    stop = text[10:13]
    first = text.index(stop)
    for include in (False, True):
        params = greedy(40, stop=["never there", stop], include_stop_str_in_output=include)
        [output] = llm.generate("The valve", params)
        assert output.outputs[0].text == text[: first + (3 if include else 0)]
        assert (output.outputs[0].finish_reason, output.outputs[0].stop_reason) == ("stop", stop)
        texts = [o.outputs[0].text for o in llm.stream("The valve", params)]
        assert texts[-1] == output.outputs[0].text
        assert all(a == b[: len(a)] for a, b in zip(texts, texts[1:])), "nothing is taken back"
    assert llm.statistics()["running"] == 0


def test_a_stop_token_ends_the_text(llm):
    [free] = llm.generate([7, 8, 9], greedy(20))
    token = free.outputs[0].token_ids[4]
    place = free.outputs[0].token_ids.index(token)
    [output] = llm.generate([7, 8, 9], greedy(20, stop_token_ids=[token]))
    assert output.outputs[0].token_ids == free.outputs[0].token_ids[: place + 1]
    assert output.outputs[0].stop_reason == token
    assert (
        output.outputs[0].text
        == llm.tokenizer.decode([7, 8, 9, *output.outputs[0].token_ids[:-1]])[len(llm.tokenizer.decode([7, 8, 9])) :]
    )


def test_samples_and_seeds(llm):
    params = SamplingParams(n=3, seed=11, max_tokens=10, top_k=50, top_p=0.9, ignore_eos=True)
    [first] = llm.generate([[1, 2, 3, 4, 5]], params)
    again = llm.generate([[9, 9], [1, 2, 3, 4, 5], [8]], [params, params, greedy(30)])[1]
    assert [o.token_ids for o in first.outputs] == [o.token_ids for o in again.outputs]
    assert len({tuple(o.token_ids) for o in first.outputs}) > 1
    assert [o.index for o in first.outputs] == [0, 1, 2]


def test_a_mask_guides_the_text(llm):
    allowed = [list(range(10 * i, 10 * i + 3)) for i in range(1, 7)]

    def mask(tokens):
        bits = np.zeros((VOCABULARY + 31) // 32 * 32, np.uint8)
        bits[allowed[len(tokens)]] = 1
        return np.packbits(bits, bitorder="little")

    [output] = llm.generate([[1, 2]], greedy(6, token_mask=mask))
    assert all(token in allowed[i] for i, token in enumerate(output.outputs[0].token_ids))
    nothing = np.zeros((VOCABULARY + 31) // 32, np.uint32)
    good, bad = llm.generate([[1, 2], [1, 2]], [greedy(3), greedy(3, token_mask=lambda _: nothing)])
    assert good.outputs[0].finish_reason == "length"
    assert bad.outputs[0].finish_reason == "error" and "no token may come next" in bad.outputs[0].error

    def broken(tokens):
        if len(tokens) == 2:
            raise KeyError("of the caller")
        return mask(tokens)

    with pytest.raises(KeyError, match="of the caller"):
        llm.generate([[1, 2]], greedy(6, token_mask=broken))
    assert llm.generate([[1, 2]], greedy(3))[0].outputs[0].token_ids == good.outputs[0].token_ids
    assert llm.statistics()["running"] == 0


def test_masks_of_some_tokens_alone_hold_where_the_text_is_guessed(engine):
    """A text that repeats itself, so that guesses come true where there is no mask."""
    mask = np.zeros((VOCABULARY + 31) // 32, np.uint32)
    mask[0] = 1 << 9
    every_third = greedy(24, token_mask=lambda tokens: mask if len(tokens) % 3 == 2 else None)
    bias = {5: 100.0}  # what comes where nothing is excluded
    every_third.logit_bias = bias
    guesses = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}
    model = LLM(engine, max_model_len=56, speculative_config=guesses)
    [output] = model.generate([[5, 5, 9] * 3], every_third)
    assert output.outputs[0].token_ids == [5, 5, 9] * 8


def test_streams_grow(llm):
    seen = {}
    for output in llm.stream([[1, 2, 3], [4, 5]], [greedy(6), greedy(9)]):
        tokens = output.outputs[0].token_ids
        before = seen.get(output.request_id, [])
        assert tokens[: len(before)] == before and len(tokens) > len(before)
        seen[output.request_id] = tokens
    assert sorted(map(len, seen.values())) == [6, 9]
    stream = llm.stream([1, 2, 3], greedy(100))
    next(stream)
    stream.close()
    assert llm.statistics()["running"] == 0


def test_event_loops(llm):
    expected = [o.outputs[0].token_ids for o in llm.generate([[i + 1, 2] for i in range(12)], greedy(10))]

    async def one(i):
        steps = []
        async for output in llm.generate_async([i + 1, 2], greedy(10)):
            steps.append(len(output.outputs[0].token_ids))
        assert steps == sorted(steps) and output.finished
        return output.outputs[0].token_ids

    async def all_of_them():
        ticks = asyncio.create_task(tick())
        results = await asyncio.gather(*[one(i) for i in range(12)])
        ticks.cancel()
        return results

    async def tick():
        while True:
            await asyncio.sleep(0)

    assert asyncio.run(all_of_them()) == expected


def test_a_loop_that_leaves_ends_its_request(llm):
    async def leave():
        stream = llm.generate_async([1, 2], greedy(100))
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(leave())
    assert llm.statistics()["running"] == llm.statistics()["waiting"] == 0

    def slow(tokens):  # or the text may have ended before its reader has seen two tokens
        time.sleep(0.02)

    async def named():
        results = []
        async for output in llm.generate_async([1, 2], greedy(120, token_mask=slow), "mine"):
            if len(output.outputs[0].token_ids) == 2:
                await asyncio.get_running_loop().run_in_executor(None, llm.abort, "mine")
            results.append(output)
        return results[-1]

    assert asyncio.run(named()).outputs[0].finish_reason == "abort"
    assert not llm.abort("mine")


def test_threads_share_the_steps(llm):
    expected = [llm.generate([[i + 1, 3]], greedy(15))[0].outputs[0].token_ids for i in range(6)]
    results = [None] * 6

    def run(i):
        results[i] = llm.generate([[i + 1, 3]], greedy(15))[0].outputs[0].token_ids

    threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == expected


def test_a_mask_that_fails_ends_its_request_alone(llm):
    expected = llm.generate([[4, 5]], greedy(30))[0].outputs[0].token_ids
    for error in (SystemExit, KeyboardInterrupt, ValueError):

        def mask(tokens, error=error):
            if len(tokens) == 3:
                raise error("of the mask")

        results = {}

        def beside(results=results):
            results["text"] = llm.generate([[4, 5]], greedy(30))[0].outputs[0].token_ids

        thread = threading.Thread(target=beside)
        thread.start()
        with pytest.raises(error, match="of the mask"):
            llm.generate([[1, 2]], greedy(8, token_mask=mask))
        thread.join()
        assert results["text"] == expected

    def asks(tokens):
        if tokens:
            llm.generate([[1, 2]], greedy(1))

    with pytest.raises(camshaft.InvalidArgumentError, match="cannot use its own LLM"):
        llm.generate([[1, 2]], greedy(4, token_mask=asks))
    assert llm.generate([[4, 5]], greedy(30))[0].outputs[0].token_ids == expected


def test_interrupts_leave_nothing_behind(folder):
    """SIGINT at any time, in a process of its own: the next call has the same text, and nothing waits for ever."""
    program = textwrap.dedent(
        """
        import random, signal, sys
        from camshaft.llm import LLM, SamplingParams

        llm = LLM(sys.argv[1])
        params = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
        expected = llm.generate([[1, 5]], params)[0].outputs[0].token_ids
        rng, interrupts = random.Random(5), 0
        for _ in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 6e-3))
                llm.generate([[1, 5]] * 8, params)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
        assert llm.generate([[1, 5]], params)[0].outputs[0].token_ids == expected
        assert interrupts > 20, interrupts
        """
    )
    program = "import signal\nsignal.signal(signal.SIGALRM, signal.default_int_handler)\n" + program
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_model_that_nobody_has_is_freed(folder):
    llm = LLM(folder)
    list(llm.stream([[1, 2]], greedy(3)))
    thread, reference = llm._steps._thread, weakref.ref(llm)
    assert thread is not None
    del llm
    gc.collect()
    thread.join(timeout=20)
    assert reference() is None and not thread.is_alive()


def test_what_is_wrong_is_named(llm, engine, folder, tmp_path):
    with pytest.raises(camshaft.InvalidArgumentError, match="top_p is 3"):
        llm.generate("x", SamplingParams(top_p=3))
    with pytest.raises(camshaft.InvalidArgumentError, match="max_model_len is 128"):
        llm.generate([[1] * 200])
    with pytest.raises(camshaft.InvalidArgumentError, match="the prompt is empty"):
        llm.generate([[]])
    with pytest.raises(camshaft.InvalidArgumentError, match="token 1 of the prompt is 300"):
        llm.generate([[1, 300]])
    with pytest.raises(camshaft.InvalidArgumentError, match="2 items for 1 prompts"):
        llm.generate([[1]], [greedy(1), greedy(2)])
    with pytest.raises(camshaft.InvalidArgumentError, match="a number is NaN or infinite"):
        llm.generate("x", SamplingParams(temperature=float("nan")))
    with pytest.raises(camshaft.InvalidArgumentError, match="out of range"):
        llm.generate("x", SamplingParams(stop_token_ids=[1 << 40]))
    with pytest.raises(camshaft.InvalidArgumentError, match="n is 1048576, at most max_num_seqs"):
        llm.generate("x", SamplingParams(n=1 << 20))
    with pytest.raises(camshaft.InvalidArgumentError, match=r"not \[1.5\]"):
        llm.generate([[1.5]], SamplingParams())
    with pytest.raises(camshaft.InvalidArgumentError, match="prompts are texts or lists"):
        llm.generate(7, SamplingParams())
    for wrong, message in (({"text": "x"}, "no 'text'"), ({}, "empty"), ({"prompt": 7}, "not 7")):
        with pytest.raises(camshaft.InvalidArgumentError, match=message):
            llm.generate(wrong, SamplingParams())
    with pytest.raises(camshaft.InvalidArgumentError, match="not {'max_tokens': 3}"):
        llm.generate("x", {"max_tokens": 3})
    with pytest.raises(camshaft.InvalidArgumentError, match="max_model_len is 129; the model was built for 128"):
        LLM(folder, max_model_len=129)
    with pytest.raises(camshaft.InvalidArgumentError, match="num_blocks is -1"):
        LLM(folder, num_blocks=-1)
    for name, value in (
        ("layers", 9),
        ("kv_heads", 0),
        ("vocabulary", "many"),
        ("vocabulary", 300.0),
        ("cache_type", "int8"),
    ):
        other = tmp_path / f"{name} {value}"
        shutil.copytree(folder, other)
        description = json.loads((other / "llm.json").read_text())
        (other / "llm.json").write_text(json.dumps({**description, name: value}))
        with pytest.raises(camshaft.CorruptEngineError, match=f"llm.json: '{name}' is {value!r}, and .* of the engine"):
            LLM(other)
    with pytest.raises(camshaft.InvalidArgumentError, match="num_blocks is 1: no text would have room"):
        LLM(folder, num_blocks=1)
    with pytest.raises(camshaft.InvalidArgumentError, match="kv_cache_memory_bytes is 2047: .* 2048 bytes are needed"):
        LLM(folder, kv_cache_memory_bytes=2047)
    least = LLM(folder, kv_cache_memory_bytes=2048)  # two blocks, for a text a token longer than one
    assert len(least.generate({"prompt_token_ids": [5]}, greedy(4))[0].outputs[0].token_ids) == 4
    for longest in ("many", 1, 128.0, True, [128]):
        other = tmp_path / f"longest {longest}"
        shutil.copytree(folder, other)
        (other / "llm.json").write_text(json.dumps({**description, "max_length": longest}))
        with pytest.raises(camshaft.CorruptEngineError, match="llm.json: 'max_length' is .*, not a number of tokens"):
            LLM(other)
    with pytest.raises(camshaft.InvalidArgumentError, match="threads is -1"):
        LLM(folder, threads=-1)
    with pytest.raises(ValueError, match="detokenize must be True"):
        SamplingParams(stop="x", detokenize=False)
    with pytest.raises(camshaft.FileError, match="camshaft llm build"):
        LLM(tmp_path)
    plain = LLM(engine, max_model_len=56)
    with pytest.raises(camshaft.InvalidArgumentError, match="no tokenizer.json"):
        plain.generate("text")
    with pytest.raises(camshaft.InvalidArgumentError, match="max_model_len is needed"):
        LLM(engine)
    with pytest.raises(camshaft.InvalidArgumentError, match="speculative_config has no k"):
        LLM(engine, max_model_len=56, speculative_config={"k": 3})
    net = camshaft.Network()
    net.output(net.Relu(net.input("x", np.float32, [3])), "y")
    other = camshaft.build(net, tuning="heuristic")
    with pytest.raises(
        camshaft.InvalidArgumentError, match="the engine is no language model: it has no input key_cache.0"
    ):
        LLM(other, max_model_len=56)
    assert llm.statistics()["running"] == llm.statistics()["waiting"] == 0
