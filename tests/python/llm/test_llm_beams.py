"""Beam search of LLM and Whisper beside plain searches in NumPy, which compute all of a text anew for each token."""

import itertools
import json
import math

import numpy as np
import pytest
import tiny_decoder
from camshaft import InvalidArgumentError
from camshaft.llm import LLM, BeamSearchParams, SamplingParams

VOCABULARY = 120
PROMPTS = [[5], [9, 40, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9], np.random.default_rng(3).integers(1, VOCABULARY, 33).tolist()]
WEIGHTS = tiny_decoder.weights_of(VOCABULARY)
#: A token that likely texts have, so that some end.
EOS = tiny_decoder.greedy_text(WEIGHTS, PROMPTS[1], 4)[-1]


@pytest.fixture(scope="module")
def weights():
    return WEIGHTS


@pytest.fixture(scope="module")
def engine(weights):
    return tiny_decoder.engine_of(weights, True)


def model_of(engine, **options):
    described = {"max_length": 96, "eos_ids": [EOS], "vocabulary": VOCABULARY}
    return LLM(engine, description=described, **options)


def search(logprobs_of, prompt, width, max_tokens, eos=None, length_penalty=1.0):
    """vLLM's LLM.beam_search: (tokens, logarithm of probability), the best one first. logprobs_of: the row behind a text."""

    def score(beam):
        tokens, logprob = beam
        return logprob / (len(tokens) - (tokens[-1] == eos)) ** length_penalty

    beams, completed = [(list(prompt), 0.0)], []
    for _ in range(max_tokens):
        going = []
        for tokens, so_far in beams:
            row = logprobs_of(tokens)
            for token in np.argsort(-row, kind="stable")[: 2 * width].tolist():
                made = ([*tokens, token], so_far + float(row[token]))
                (completed if token == eos else going).append(made)
        beams = sorted(going, key=score, reverse=True)[:width]
    return sorted(completed + beams, key=score, reverse=True)[:width]


def logprobs_behind(weights, temperature=1.0):
    def row_of(tokens):
        row = tiny_decoder.logits_of(weights, tokens)[-1] / temperature
        return row - row.max() - np.log(np.exp(row - row.max()).sum())

    return row_of


def check(output, expected, eos=EOS):
    assert [sequence.tokens for sequence in output.sequences] == [tokens for tokens, _ in expected]
    for sequence, (tokens, logprob) in zip(output.sequences, expected):
        assert math.isclose(sequence.cum_logprob, logprob, abs_tol=1e-3)
        assert sequence.finish_reason == ("stop" if tokens[-1] == eos else "length")
        assert sequence.stop_reason is None and sequence.text is None


@pytest.mark.parametrize("width, length_penalty", [(1, 1.0), (2, 1.0), (4, 0.0), (5, 2.0), (3, -0.5)])
def test_texts_are_those_of_a_plain_search(engine, weights, width, length_penalty):
    expected = [search(logprobs_behind(weights), prompt, width, 10, EOS, length_penalty) for prompt in PROMPTS]
    assert any(tokens[-1] == EOS for each in expected for tokens, _ in each)
    params = BeamSearchParams(width, 10, length_penalty=length_penalty)
    for setting in (
        {},
        {"max_num_seqs": 5, "max_num_batched_tokens": 7},
        {"num_blocks": 60, "enable_prefix_caching": False},
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}},
    ):
        for output, wanted in zip(model_of(engine, **setting).beam_search(PROMPTS, params), expected):
            check(output, wanted)


def test_temperature_divides_logits(engine, weights):
    params = BeamSearchParams(3, 6, temperature=0.5, ignore_eos=True)
    [output] = model_of(engine).beam_search([PROMPTS[1]], params)
    check(output, search(logprobs_behind(weights, 0.5), PROMPTS[1], 3, 6), eos=None)


def test_it_is_what_vllms_loop_makes_of_generate(engine):
    """A request for each beam and token, with the logprobs of its likeliest tokens."""
    llm, width = model_of(engine), 4

    def row_of(tokens):
        params = SamplingParams(temperature=0, max_tokens=1, logprobs=2 * width)
        [output] = llm.generate([tokens], params)
        row = np.full(VOCABULARY, -np.inf)
        for token, logprob in output.outputs[0].logprobs[0].items():
            row[token] = logprob.logprob
        return row

    for prompt, penalty in itertools.product(PROMPTS[:3], (0.0, 1.0)):
        expected = search(row_of, prompt, width, 8, EOS, penalty)
        [output] = llm.beam_search([{"prompt_token_ids": prompt}], BeamSearchParams(width, 8, length_penalty=penalty))
        check(output, expected)


def test_one_beam_that_goes_on_is_greedy(engine):
    llm = model_of(engine)
    texts = llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=20, ignore_eos=True))
    searched = llm.beam_search(PROMPTS, BeamSearchParams(1, 20, ignore_eos=True))
    for prompt, text, output in zip(PROMPTS, texts, searched):
        assert [sequence.tokens for sequence in output.sequences] == [prompt + text.outputs[0].token_ids]


def test_searches_run_beside_texts_that_are_drawn(engine):
    llm = model_of(engine, num_blocks=90)
    drawn = SamplingParams(max_tokens=30, seed=4, n=2, ignore_eos=True)
    alone = [output.outputs[0].token_ids for output in llm.generate(PROMPTS, drawn)]
    [expected] = llm.beam_search([PROMPTS[2]], BeamSearchParams(4, 40, ignore_eos=True))
    texts = llm.stream(PROMPTS * 3, [drawn] * 12)
    next(texts)
    [output] = llm.beam_search([PROMPTS[2]], BeamSearchParams(4, 40, ignore_eos=True))
    check(output, [(sequence.tokens, sequence.cum_logprob) for sequence in expected.sequences], eos=None)
    finished = [text for text in texts if text.finished]
    assert sorted(text.outputs[0].token_ids for text in finished) == sorted(alone * 3)
    statistics = llm.statistics()
    assert statistics["free_blocks"] == statistics["blocks"] and statistics["running"] == 0


@pytest.mark.parametrize("caching", [True, False])
def test_searches_that_run_short_of_blocks(engine, caching):
    """Beams are preempted together, and go on where they were."""
    random = np.random.default_rng(8)
    prompts = [random.integers(1, VOCABULARY, int(random.integers(1, 40))).tolist() for _ in range(24)]
    params = [
        BeamSearchParams(
            int(random.integers(1, 6)), int(random.integers(5, 40)), ignore_eos=bool(random.integers(0, 2))
        )
        for _ in prompts
    ]
    roomy = model_of(engine, num_blocks=1000)
    expected = [roomy.beam_search([prompt], one)[0] for prompt, one in zip(prompts, params)]
    assert roomy.statistics()["preemptions"] == 0
    llm = model_of(engine, num_blocks=72, enable_prefix_caching=caching)
    drawn = SamplingParams(max_tokens=30, seed=4, ignore_eos=True)
    alone = [output.outputs[0].token_ids for output in roomy.generate(prompts, drawn)]
    texts = llm.stream(prompts, drawn)
    next(texts)
    for output, wanted in zip(llm.beam_search(prompts, params), expected):
        check(output, [(sequence.tokens, sequence.cum_logprob) for sequence in wanted.sequences], output_eos(output))
    finished = {tuple(text.prompt_token_ids): text.outputs[0].token_ids for text in texts if text.finished}
    assert finished == {tuple(prompt): text for prompt, text in zip(prompts, alone)}
    statistics = llm.statistics()
    assert statistics["preemptions"] > 5
    assert statistics["free_blocks"] == statistics["blocks"]


def output_eos(output):
    """Whether texts end with it is what finish_reason says."""
    return EOS if any(sequence.finish_reason == "stop" for sequence in output.sequences) else None


def test_what_cannot_be_searched_is_refused(engine):
    llm = model_of(engine, max_num_seqs=4)
    for params, words in (
        (BeamSearchParams(5, 4), "beam_width is 5, at most max_num_seqs, 4"),
        (BeamSearchParams(0, 4), "beam_width is 0"),
        (BeamSearchParams(2, 0), "max_tokens is 0"),
        (BeamSearchParams(2, 4, length_penalty=math.nan), "a number is NaN"),
        (SamplingParams(), "params are BeamSearchParams"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            llm.beam_search([[1, 2]], params)
    with pytest.raises(InvalidArgumentError, match="params has 1 items for 2 prompts"):
        llm.beam_search([[1], [2]], [BeamSearchParams(2, 4)])
    assert llm.beam_search([], BeamSearchParams(2, 4)) == []


def test_texts_are_decoded_as_vllm_decodes_them(engine, tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    names = {f"w{token}": token for token in range(VOCABULARY)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(names, unk_token="w0"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.add_special_tokens([f"w{EOS}"])
    made.save(str(tmp_path / "tokenizer.json"))
    engine.save(tmp_path / "model.engine")
    described = {"max_length": 96, "eos_ids": [EOS], "vocabulary": VOCABULARY}
    (tmp_path / "llm.json").write_text(json.dumps(described))
    llm = LLM(tmp_path)
    for shows_end in (False, True):
        params = BeamSearchParams(5, 10, length_penalty=2.0, include_stop_str_in_output=shows_end)
        [output] = llm.beam_search(["w9 w40 w3"], params)
        assert {sequence.finish_reason for sequence in output.sequences} == {"stop", "length"}
        for sequence in output.sequences:
            left_out = sequence.finish_reason == "stop" and not shows_end
            shown = sequence.tokens[:-1] if left_out else sequence.tokens
            assert sequence.text == " ".join(f"w{token}" for token in shown)
