"""How a text is chosen: the fields that completions and chat completions have in common."""

from __future__ import annotations

from typing import Any

from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._structured_outputs import StructuredOutputsParams
from camshaft.llm.openai._body import Body
from camshaft.llm.openai._errors import RequestError, param_of

MOST_SAMPLES = 128
MOST_LOGPROBS = 20
_MOST_STOPS = 1024
# Of one stop string, and of all: what may become one is not shown.
_LONGEST_STOP, _MOST_STOP_CHARACTERS = 1 << 12, 1 << 14
_MOST_STOP_TOKENS = 1024  # which are gone through for each token
SEEDS = 1 << 63
# Who asks, and what OpenAI does with it: without meaning for a text.
_IDLE = ("model", "user", "metadata", "store", "prompt_cache_key", "safety_identifier", "service_tier")
_GUIDED = {"guided_json": "json", "guided_regex": "regex", "guided_choice": "choice", "guided_grammar": "grammar"}


def take_idle(body: Body) -> None:
    for name in _IDLE:
        body.raw(name)


def sampling_fields(body: Body) -> dict[str, Any]:
    """Of SamplingParams; without max_tokens and logprobs, which either call has in its own way."""
    fields: dict[str, Any] = {
        "n": body.integer("n", 1, 1, MOST_SAMPLES),
        "temperature": body.number("temperature", 1.0),
        "top_p": body.number("top_p", 1.0, 0.0, 1.0),
        "top_k": max(body.integer("top_k", 0, -1), 0),  # -1: all, as in vLLM
        "min_p": body.number("min_p", 0.0, 0.0, 1.0),
        "presence_penalty": body.number("presence_penalty", 0.0, -2.0, 2.0),
        "frequency_penalty": body.number("frequency_penalty", 0.0, -2.0, 2.0),
        "repetition_penalty": body.number("repetition_penalty", 1.0, 1e-6),
        "seed": body.integer("seed", None, -SEEDS, SEEDS - 1),
        "stop": _stops(body),
        "stop_token_ids": _stop_tokens(body),
        "ignore_eos": body.flag("ignore_eos"),
        "min_tokens": body.integer("min_tokens", 0),
        "skip_special_tokens": body.flag("skip_special_tokens", True),
        "include_stop_str_in_output": body.flag("include_stop_str_in_output"),
        "logit_bias": _bias(body),
    }
    if body.has("allowed_token_ids"):
        fields["allowed_token_ids"] = _tokens(body, "allowed_token_ids")
    if fields["top_p"] == 0.0:  # the likeliest alone
        fields["top_p"], fields["top_k"] = 1.0, 1
    if fields["seed"] is not None:
        fields["seed"] %= SEEDS
    return fields


def structured_outputs(body: Body) -> tuple[StructuredOutputsParams | None, str]:
    """What the text must be like, in OpenAI's words or in vLLM's, and the field that says so."""
    found: list[tuple[str, dict[str, Any]]] = []
    form = body.within("response_format")
    if form is not None:
        kind = form.text("type", options=("text", "json_object", "json_schema"))
        if kind is None:
            raise RequestError("'response_format' has no type", "response_format.type")
        if kind == "json_object":
            found.append(("response_format", {"json_object": True}))
        if kind == "json_schema":
            schema = form.within("json_schema")
            given = schema.raw("schema") if schema is not None else None
            if schema is None or not isinstance(given, (dict, bool)):
                raise RequestError("'response_format.json_schema.schema' is no schema", "response_format.json_schema")
            for name in ("name", "description", "strict"):
                schema.raw(name)
            schema.finish()
            found.append(("response_format", {"json": given if isinstance(given, dict) else str(given).lower()}))
        form.finish()
    own = body.raw("structured_outputs")
    if own is not None:
        if not isinstance(own, dict):
            body.wrong("structured_outputs", "an object", own)
        found.append(("structured_outputs", own))
    for name, kind in _GUIDED.items():
        value = body.raw(name)
        if value is not None:
            found.append((name, {kind: value}))
    if len(found) > 1:
        raise RequestError(f"'{found[0][0]}' and '{found[1][0]}' both say what the text is: give one", found[1][0])
    if not found:
        return None, "structured_outputs"
    name, given = found[0]
    try:
        return StructuredOutputsParams(**given), name
    except (TypeError, ValueError) as error:
        raise RequestError(f"'{name}': {error}", name) from None


def make_params(fields: dict[str, Any]) -> SamplingParams:
    try:
        return SamplingParams(**fields)
    except ValueError as error:
        raise RequestError(str(error), param_of(str(error))) from None


def stream_options(body: Body) -> tuple[bool, bool]:
    """Whether the reply is a stream, and whether it ends with the usage."""
    is_stream, options = body.flag("stream"), body.within("stream_options")
    if options is None:
        return is_stream, False
    if not is_stream:
        raise RequestError("'stream_options' is for streams alone: set 'stream'", "stream_options")
    include_usage = options.flag("include_usage")
    options.raw("include_obfuscation")  # of OpenAI's own network
    options.finish()
    return is_stream, include_usage


def _stops(body: Body) -> list[str]:
    value = body.raw("stop", [])
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS or not all(isinstance(s, str) and s for s in stops):
        body.wrong("stop", f"a text or a list of at most {_MOST_STOPS} texts, none of them empty,", value)
    if max(map(len, stops), default=0) > _LONGEST_STOP or sum(map(len, stops)) > _MOST_STOP_CHARACTERS:
        raise RequestError(
            f"'stop' has {sum(map(len, stops))} characters; {_LONGEST_STOP} of one text and {_MOST_STOP_CHARACTERS} of all "
            "are the most",
            "stop",
        )
    return stops


def _stop_tokens(body: Body) -> list[int]:
    tokens = list(dict.fromkeys(_tokens(body, "stop_token_ids")))
    if len(tokens) > _MOST_STOP_TOKENS:
        body.wrong("stop_token_ids", f"a list of at most {_MOST_STOP_TOKENS} tokens", tokens)
    return tokens


def _tokens(body: Body, name: str) -> list[int]:
    value = body.raw(name, [])
    if not isinstance(value, list) or not all(is_token(each) for each in value):
        body.wrong(name, "a list of tokens' numbers", value)
    return value


def is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _bias(body: Body) -> dict[int, float] | None:
    value = body.raw("logit_bias")
    if value is None:
        return None
    if not isinstance(value, dict):
        body.wrong("logit_bias", "an object", value)
    bias: dict[int, float] = {}
    for token, amount in value.items():
        is_number = isinstance(amount, (int, float)) and not isinstance(amount, bool) and -100 <= amount <= 100
        if not (token.isascii() and token.isdigit() and len(token) < 10) or not is_number:
            body.wrong("logit_bias", "an object of tokens' numbers, each with a number from -100 to 100,", value)
        bias[int(token)] = float(amount)
    return bias
