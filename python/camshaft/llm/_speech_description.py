"""What llm.json says of a model of speech, under "speech": what its runs must know of sounds and of special tokens."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from camshaft._errors import CorruptEngineError, InvalidModelError
from camshaft.llm._decoder import Decoder
from camshaft.llm._fields import Fields
from camshaft.llm._speech_encoder import SpeechEncoder


@dataclasses.dataclass(frozen=True)
class Speech:
    """Tokens are numbers of the vocabulary, None where the model has no such one."""

    sampling_rate: int  # samples of a second
    samples: int  # of a window, which the encoder sees at once
    states: int  # of a window, which the decoder sees
    start_id: int
    no_timestamps_id: int | None
    previous_id: int | None  # before what was said before
    languages: dict[str, int]  # by their codes: "en"; none: of one language
    tasks: dict[str, int]  # "transcribe", "translate"
    suppress_tokens: list[int]
    begin_suppress_tokens: list[int]
    max_initial_timestamp: int  # the largest step that a text may begin with; -1: any

    @property
    def no_speech_id(self) -> int | None:
        """The token of silence, which is in front of that of no timestamps in all of Whisper's vocabularies."""
        return self.no_timestamps_id - 1 if self.no_timestamps_id else None

    @property
    def timestamp_begin(self) -> int | None:
        """The token of 0.00 s; those of later times, in steps of a state's length, are behind it."""
        return None if self.no_timestamps_id is None else self.no_timestamps_id + 1


def speech_of(encoder: SpeechEncoder, decoder: Decoder, config: Fields, generation: Fields | None) -> Speech:
    """generation: of generation_config.json, whose fields go before those of the configuration."""
    features = encoder.features
    fields = config if generation is None else Fields({**config.values, **generation.values}, generation.where)
    most = decoder.vocabulary - 1

    def token(name: str) -> int | None:
        return fields.integer(name, low=0, high=most) if fields.has(name) else None

    return Speech(
        sampling_rate=features.rate,
        samples=features.samples,
        states=encoder.stack.max_length,
        start_id=fields.integer("decoder_start_token_id", low=0, high=most),
        no_timestamps_id=token("no_timestamps_token_id"),
        previous_id=token("prev_sot_token_id"),
        languages=_named_tokens(fields, "lang_to_id", most),
        tasks=_named_tokens(fields, "task_to_id", most),
        # Configurations of small models keep the numbers of large vocabularies.
        suppress_tokens=[i for i in _tokens(fields, "suppress_tokens") if i <= most],
        begin_suppress_tokens=[i for i in _tokens(fields, "begin_suppress_tokens") if i <= most],
        max_initial_timestamp=fields.integer("max_initial_timestamp_index", default=-1, low=-1, high=1 << 20),
    )


def read_speech(description: dict[str, Any], where: Path) -> Speech:
    """Of llm.json. CorruptEngineError names a field that is no such thing."""
    try:
        whole = Fields(description, str(where))
        most = whole.integer("vocabulary", high=1 << 24) - 1
        fields = whole.within("speech")

        def token(name: str) -> int | None:
            return fields.integer(name, low=0, high=most) if fields.has(name) else None

        made = Speech(
            sampling_rate=fields.integer("sampling_rate"),
            samples=fields.integer("samples", high=1 << 28),
            states=fields.integer("states", high=1 << 16),
            start_id=fields.integer("start_id", low=0, high=most),
            no_timestamps_id=token("no_timestamps_id"),
            previous_id=token("previous_id"),
            languages=_named_tokens(fields, "languages", most),
            tasks=_named_tokens(fields, "tasks", most),
            suppress_tokens=_tokens(fields, "suppress_tokens", most),
            begin_suppress_tokens=_tokens(fields, "begin_suppress_tokens", most),
            max_initial_timestamp=fields.integer("max_initial_timestamp", low=-1),
        )
        if made.no_timestamps_id == most:
            fields.wrong(("no_timestamps_id",), "a token with times behind it", most)
        return made
    except InvalidModelError as error:
        raise CorruptEngineError(str(error)) from None


def _named_tokens(fields: Fields, name: str, most: int) -> dict[str, int]:
    """Tokens by names without their brackets."""
    if not fields.has(name):
        return {}
    named = fields.within(name)
    return {key.removeprefix("<|").removesuffix("|>"): named.integer(key, low=0, high=most) for key in named.values}


def _tokens(fields: Fields, name: str, most: int = 1 << 24) -> list[int]:
    tokens: Any = fields.raw(name, default=[])
    if not isinstance(tokens, list) or not all(type(token) is int and 0 <= token <= most for token in tokens):
        fields.wrong((name,), f"a list of tokens from 0 to {most}", tokens)
    return list(tokens)
