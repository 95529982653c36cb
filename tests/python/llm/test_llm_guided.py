"""Guided decoding: texts are what their schema, expression, choice or grammar says, in batches, with guesses and beside others."""

import json
import re
import time

import camshaft
import pytest
import tiny_decoder
from camshaft.llm import LLM, SamplingParams, StructuredOutputsParams

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
pytest.importorskip("llguidance", reason="llguidance is not installed")

VOCABULARY = 300
NGRAMS = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "tags": {"type": "array", "items": {"enum": ["red", "blue"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}

# Whitespace of any length is all that a model with random weights would write.
COMPACT = {"json": SCHEMA, "disable_any_whitespace": True}


@pytest.fixture(scope="module")
def engine():
    return tiny_decoder.engine_of(tiny_decoder.weights_of(VOCABULARY))


@pytest.fixture(scope="module")
def folder(engine, tmp_path_factory):
    path = tmp_path_factory.mktemp("guided") / "model"
    path.mkdir()
    engine.save(path / "model.engine")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY - 5,  # engines may have more rows than the tokenizer has words
        special_tokens=["<end>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(['{"name": "red", "age": 12}', "the engine turns the shaft"] * 2, trainer)
    made.save(str(path / "tokenizer.json"))
    (path / "llm.json").write_text(json.dumps({"max_length": 256, "eos_ids": [0], "vocabulary": VOCABULARY}))
    return path


@pytest.fixture(scope="module")
def llm(folder):
    return LLM(folder)


def guided(seed=0, count=200, **of):
    return SamplingParams(
        max_tokens=count, seed=seed, temperature=1.5, structured_outputs=StructuredOutputsParams(**of)
    )


def is_of_schema(text):
    value = json.loads(text)
    return (
        set(value) == {"name", "age", "tags"}
        and len(value["name"]) <= 6
        and 0 <= value["age"] <= 99
        and 1 <= len(value["tags"]) <= 3
        and set(value["tags"]) <= {"red", "blue"}
    )


KINDS = [
    ({"json": SCHEMA, "whitespace_pattern": " ?"}, is_of_schema),
    ({"json": json.dumps(SCHEMA), "disable_any_whitespace": True}, lambda t: is_of_schema(t) and ": " not in t),
    ({"regex": r"(ab|cd){2,4}-[0-9]{3}"}, lambda t: re.fullmatch(r"(ab|cd){2,4}-[0-9]{3}", t)),
    ({"regex": r"[äöü]{5}"}, lambda t: re.fullmatch(r"[äöü]{5}", t)),
    ({"choice": ["yes", "no", 'Öl "und" \\ Gas\n']}, lambda t: t in ("yes", "no", 'Öl "und" \\ Gas\n')),
    ({"grammar": 'start: "<" NAME ">" \nNAME: /[a-c]{1,5}/'}, lambda t: re.fullmatch("<[a-c]{1,5}>", t)),
    ({"grammar": 'root ::= "x" digit digit\ndigit ::= [0-9]'}, lambda t: re.fullmatch("x[0-9][0-9]", t)),
]


@pytest.mark.parametrize("settings", [{}, {"speculative_config": NGRAMS}, {"max_num_seqs": 3, "num_blocks": 140}])
def test_texts_are_as_they_must_be(folder, settings):
    """Many at once: of all kinds, beside those that are free; sampled, so that the model would go anywhere."""
    model = LLM(folder, **settings)
    params, checks = [], []
    for seed in range(4):
        for of, check in KINDS:
            params.append(guided(seed, **of))
            checks.append(check)
        params.append(SamplingParams(max_tokens=20, seed=seed, ignore_eos=True))
        checks.append(lambda text: True)
    prompts = [[1 + i % 7, 5, 9] for i in range(len(params))]
    outputs = model.generate(prompts, params)
    for output, of, check in zip(outputs, params, checks):
        one = output.outputs[0]
        assert one.error is None, one.error
        assert check(one.text), (of.structured_outputs, one.text)
        assert one.finish_reason == ("stop" if of.structured_outputs else "length")
    free = [i for i, of in enumerate(params) if of.structured_outputs is None]
    alone = model.generate([prompts[i] for i in free], [params[i] for i in free])
    assert [o.outputs[0].token_ids for o in alone] == [outputs[i].outputs[0].token_ids for i in free]
    assert model.statistics()["running"] == 0


def test_guesses_change_nothing(folder):
    """The text with guesses is the text without, and guesses come true within masks."""
    params = [guided(seed, **COMPACT) for seed in range(6)]
    params += [guided(0, 60, regex="(the engine turns )+"), guided(1, 60, regex="(ab)*")]
    prompts = [[1, 2, 3, 1, 2, 3]] * len(params)
    plain = LLM(folder).generate(prompts, params)
    model = LLM(folder, speculative_config=NGRAMS)
    with_guesses = model.generate(prompts, params)
    assert [o.outputs[0].token_ids for o in plain] == [o.outputs[0].token_ids for o in with_guesses]
    assert [o.outputs[0].finish_reason for o in plain] == [o.outputs[0].finish_reason for o in with_guesses]
    assert model.statistics()["accepted"] > 50


def test_samples_and_streams(llm):
    params = guided(3, **COMPACT)
    params.n = 3
    [output] = llm.generate([[1, 2]], params)
    assert all(is_of_schema(one.text) for one in output.outputs)
    assert len({one.text for one in output.outputs}) == 3
    texts = [o.outputs[0].text for o in llm.stream([1, 2], guided(3, choice=["yes", "no"]))]
    assert texts[-1] in ("yes", "no")
    assert all(a == b[: len(a)] for a, b in zip(texts, texts[1:]))


def test_beside_other_ways_to_choose(llm):
    params = guided(1, regex="[a-z]{8}")
    letters = [llm.tokenizer.token_to_id(c) for c in "abc"]
    params.allowed_token_ids, params.logprobs = [*letters, 0], 2
    [output] = llm.generate([[1, 2]], params)
    one = output.outputs[0]
    assert re.fullmatch("[abc]{8}", one.text)
    assert len(one.logprobs) == len(one.token_ids)
    params = guided(1, regex="[a-z]{8}x[a-z]{8}")
    params.stop = ["x"]
    [output] = llm.generate([[1, 2]], params)
    assert re.fullmatch("[a-z]{0,8}", output.outputs[0].text) and output.outputs[0].stop_reason == "x"
    [output] = llm.generate([[1, 2]], guided(0, 4, regex="[a-z]{40}"))
    assert output.outputs[0].finish_reason == "length"
    params = guided(1, regex="[0-9]{8}")
    params.allowed_token_ids = letters
    free, none = llm.generate([[1, 2], [1, 2]], [SamplingParams(max_tokens=3, ignore_eos=True), params])
    assert none.outputs[0].finish_reason == "error" and "no token may come next" in none.outputs[0].error
    assert free.outputs[0].finish_reason == "length"
    with pytest.raises(ValueError, match="give one"):
        SamplingParams(token_mask=lambda _: None, structured_outputs=StructuredOutputsParams(regex="a"))


def test_a_model_without_an_end(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "llm.json").write_text(json.dumps({"max_length": 256, "eos_ids": [], "vocabulary": VOCABULARY}))
    for settings in ({}, {"speculative_config": NGRAMS}):
        outputs = LLM(tmp_path, **settings).generate(
            [[1, 2, 1, 2]] * 2, [guided(0, regex="(ab){8}"), guided(0, **COMPACT)]
        )
        assert outputs[0].outputs[0].text == "ab" * 8
        assert is_of_schema(outputs[1].outputs[0].text)
        assert {o.outputs[0].finish_reason for o in outputs} == {"stop"}


@pytest.mark.parametrize(
    "of, message",
    [
        ({"json": {"type": "nope"}}, "json: .*nope"),
        ({"json": "{"}, "json: "),
        ({"json": "[1]"}, "json: a JSON schema is an object"),
        ({"json": {"$ref": "http://127.0.0.1:9/schema.json"}}, "json: "),
        ({"json": {"$ref": "#/nowhere"}}, "json: "),
        ({"regex": "a("}, "regex: .*"),
        ({"regex": "(?=a)b"}, "regex: "),
        ({"grammar": "start: nowhere"}, "grammar: .*nowhere"),
        ({"json": json.dumps({"enum": ["x" * (1 << 20)]})}, "json: it has more than 1048576 characters"),
    ],
)
def test_what_cannot_be_is_one_error(llm, of, message):
    with pytest.raises(camshaft.InvalidArgumentError, match="structured_outputs: " + message):
        llm.generate([[1, 2]], guided(**of))
    assert llm.statistics()["running"] == llm.statistics()["waiting"] == 0


def test_what_is_asked_is_checked():
    for of in ({}, {"regex": "a", "json": {}}, {"choice": []}, {"choice": "ab"}, {"choice": [1]}, {"regex": 1}):
        with pytest.raises(ValueError, match="structured_outputs"):
            StructuredOutputsParams(**of)
    assert SamplingParams(structured_outputs={"json_object": True}).structured_outputs.kind == "json_object"


def nested(depth, of="properties"):
    schema = {"type": "integer"}
    for _ in range(depth):
        schema = (
            {"type": "object", "properties": {"a": schema}, "required": ["a"]} if of == "properties" else {of: [schema]}
        )
    return schema


BOMBS = {
    "deep": {"json": nested(5000)},
    "alternatives": {"json": nested(60, "anyOf")},
    "products": {"json": {"allOf": [{"anyOf": [{"minLength": i}, {"maxLength": 100 + i}]} for i in range(64)]}},
    "long": {"json": {"type": "array", "minItems": 10**9}},
    "powers": {"json": {"type": "string", "pattern": "^((a{1,500}){1,500}){1,500}$"}},
    "wide": {"json": {"properties": {f"p{i}": {"type": "string"} for i in range(20_000)}}},
    "itself": {"json": {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}},
    "values": {"json": {"enum": [f"{i:06d}" for i in range(50_000)]}},
    "states": {"regex": "(a|b|ab)*" * 200},
    "far": {"regex": "(.*a.{300}){50}"},
    "ambiguous": {"grammar": "start: start start | /a*/ | start start start"},
}


@pytest.mark.parametrize("of", BOMBS.values(), ids=BOMBS)
def test_bombs_end_their_own_request(llm, of):
    """Refused, or ended with an error, or stopped by max_tokens; in a time that others can wait, who go on."""
    begin = time.monotonic()
    try:
        free, bomb = llm.generate(
            [[1, 2], [1, 2]], [SamplingParams(max_tokens=5, ignore_eos=True), guided(0, 30, **of)]
        )
        assert free.outputs[0].finish_reason == "length"
        assert bomb.outputs[0].finish_reason in ("stop", "length", "error")
    except camshaft.InvalidArgumentError as error:
        assert len(str(error)) < 2000
    assert time.monotonic() - begin < 30
    assert llm.statistics()["running"] == llm.statistics()["waiting"] == 0


def test_without_a_tokenizer(engine):
    model = LLM(engine, max_model_len=56, description={"vocabulary": VOCABULARY, "eos_ids": [0]})
    with pytest.raises(camshaft.InvalidArgumentError, match=r"the model has no tokenizer.json"):
        model.generate([[1, 2]], guided(regex="a"))
