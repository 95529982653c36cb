"""Text of an encoder-decoder model (T5), for many prompts at once."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft import _native
from camshaft._errors import CorruptEngineError, InvalidArgumentError, InvalidModelError
from camshaft.llm._beam_search import (
    BeamSearchOutput,
    BeamSearchParams,
    beam_search_output,
    searched_params,
)
from camshaft.llm._checks import check_positive
from camshaft.llm._encoder_context import EncoderContext
from camshaft.llm._encoder_decoder_run import EncoderDecoderRun
from camshaft.llm._fields import Fields
from camshaft.llm._folder import DESCRIPTION
from camshaft.llm._image_encoder import pictures_of
from camshaft.llm._llm import LLM
from camshaft.llm._outputs import RequestOutput
from camshaft.llm._prompts import Prompt, listed_prompts
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._slots import Slots
from camshaft.llm._text_encoder import MOST_TOKENS

if TYPE_CHECKING:
    from camshaft._types import Path as AnyPath


class EncoderDecoderLLM:
    """The model of a folder that `camshaft llm build` made of a T5: an encoder reads a prompt, and a decoder, which sees what
    it made of it, writes the text.

    llm = EncoderDecoderLLM("flan-t5-small")
    for output in llm.generate(["Translate to German: The house is small."], SamplingParams(temperature=0, max_tokens=64)):
        print(output.outputs[0].text)

    max_num_seqs: texts that are decoded at once; max_encoder_seqs: prompts that have memory for the encoder's keys and
        values, as many as these without it. seed: of requests that have none; threads: of the engines, one for each core
        without it; device: where these are for GPUs.

    May be used from several threads, whose requests run together."""

    def __init__(
        self,
        model: AnyPath,
        *,
        device: str | None = None,
        max_num_seqs: int = 32,
        max_encoder_seqs: int | None = None,
        max_num_batched_tokens: int = 512,
        seed: int = 0,
        threads: int | None = None,
    ) -> None:
        folder = Path(os.fspath(model))
        slots = max_num_seqs if max_encoder_seqs is None else max_encoder_seqs
        check_positive("max_num_seqs", max_num_seqs)
        check_positive("max_encoder_seqs", slots)
        self._llm = LLM(
            folder,
            device=device,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            enable_prefix_caching=False,  # what follows the same words is another thing with each prompt
            seed=seed,
            threads=threads,
            max_encoder_seqs=slots,
        )
        self.description = self._llm.description
        if "encoder" not in self.description:
            raise InvalidArgumentError(
                f"{folder}: no model with an encoder of text; camshaft.llm.LLM or Whisper runs it"
            )
        where = folder / DESCRIPTION
        try:
            whole = Fields(self.description, str(where))
            fields = whole.within("encoder")
            self._longest = fields.integer("max_tokens", high=MOST_TOKENS)
            self._start = fields.integer("start_id", low=0, high=whole.integer("vocabulary", high=1 << 24) - 1)
        except InvalidModelError as error:
            raise CorruptEngineError(str(error)) from None
        self._blocks_of_one, self._block_size, _ = _native.generator_cross_cache(self._llm.engine._engine)
        if self._longest > self._blocks_of_one * self._block_size:
            raise CorruptEngineError(
                f"{where}: 'max_tokens' of 'encoder' is {self._longest}, and the engine beside it has room for "
                f"{self._blocks_of_one * self._block_size}"
            )
        self._encoder = EncoderContext(self._llm, folder, device, threads or 0)
        self._slots = Slots(slots)

    @property
    def tokenizer(self) -> Any:
        """Of the package `tokenizers`; None where the folder has no tokenizer.json."""
        return self._llm.tokenizer

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """The texts for prompts, in their order. A prompt is a text, whose special tokens are added as its tokenizer has
        them, or a list of tokens' numbers; sampling_params one for all, or one for each; priority, where lower ones run
        first, one for each. An output's `prompt_token_ids` are what the encoder has read.

        Raises InvalidArgumentError for what could never run; what else goes wrong later is in the output's `error`."""
        run = EncoderDecoderRun(self, *_listed(prompts, sampling_params), priority)
        return [run.shown(place, output) for place, output in enumerate(_last(run))]

    def stream(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        priority: Sequence[int] | None = None,
    ) -> Iterator[RequestOutput]:
        """The same while they grow: after each step the outputs that have changed, each with all of its text so far."""
        run = EncoderDecoderRun(self, *_listed(prompts, sampling_params), priority, streams=True)
        for place, output in run.outputs():
            yield run.shown(place, output)

    async def generate_async(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        priority: int = 0,
    ) -> AsyncIterator[RequestOutput]:
        """For event loops: `async for output in llm.generate_async(...)` gives the text so far after each step that it grew
        in. The request ends with the loop around it."""
        loop = asyncio.get_running_loop()
        results: asyncio.Queue[RequestOutput | BaseException] = asyncio.Queue()

        def tell(result: RequestOutput | BaseException) -> None:
            if not loop.is_closed():  # of one that has ended nobody waits
                loop.call_soon_threadsafe(results.put_nowait, result)

        arguments = ([prompt], [sampling_params or SamplingParams()], [priority], "sampling_params", True, request_id)
        run = await loop.run_in_executor(None, lambda: EncoderDecoderRun(self, *arguments))

        def follow() -> None:
            try:
                for place, output in run.outputs():
                    tell(run.shown(place, output))
            except BaseException as error:  # of a thread that nobody else looks at
                tell(error)

        threading.Thread(target=follow, name="camshaft.llm.encoder_decoder", daemon=True).start()
        finished = False
        try:
            while not finished:
                result = await results.get()
                if isinstance(result, BaseException):
                    raise result
                finished = result.finished
                yield result
        finally:
            if not finished:
                run.cancel()

    def beam_search(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: BeamSearchParams | Sequence[BeamSearchParams],
        *,
        priority: Sequence[int] | None = None,
    ) -> list[BeamSearchOutput]:
        """The likeliest texts for prompts that beam search finds, each prompt's by their score; a sequence's `tokens` are the
        decoder's. The rest is as in generate() and LLM.beam_search()."""
        listed = listed_prompts(prompts)
        searched = searched_params(params, len(listed))
        results = _last(EncoderDecoderRun(self, listed, searched, priority, "params"))
        return [beam_search_output(result, one, self.tokenizer) for result, one in zip(results, searched)]

    def _read(self, prompt: Prompt, params: SamplingParams) -> tuple[str | None, list[int]]:
        if params.prompt_logprobs is not None:
            raise InvalidArgumentError(
                f"prompt_logprobs is {params.prompt_logprobs}: the model does not continue its prompt, of which it gives none"
            )
        text, tokens = self._llm._requests.text_and_tokens(prompt)
        if (most := params.most_tokens(self._longest)) is not None:
            tokens = tokens[-most:]
        pictures_of(None, prompt, tokens)  # which it does not read
        if not tokens:
            raise InvalidArgumentError("the prompt is empty: it must have a token at least")
        if len(tokens) > self._longest:
            raise InvalidArgumentError(
                f"the prompt has {len(tokens)} tokens; the model was built for {self._longest} at most (--max-length)"
            )
        vocabulary = self.description["vocabulary"]
        wrong = next((token for token in tokens if not 0 <= token < vocabulary), None)
        if wrong is not None:
            raise InvalidArgumentError(f"the prompt has token {wrong}, the vocabulary has tokens 0 to {vocabulary - 1}")
        return text, tokens

    def _keys_of(self, slot: int, tokens: int) -> tuple[range, int]:
        """The blocks of the encoder's keys, and the number of these."""
        first = slot * self._blocks_of_one
        return range(first, first - tokens // -self._block_size), tokens

    def _encode(self, prompts: Sequence[tuple[int, list[int]]]) -> None:
        """prompts: tokens, and the slots that their keys and values go to."""
        import numpy

        rows = [slot * self._blocks_of_one * self._block_size + numpy.arange(len(tokens)) for slot, tokens in prompts]
        self._encoder.run(
            {
                "input_ids": numpy.concatenate([tokens for _, tokens in prompts]).astype(numpy.int32),
                "cumulative_sequence_length": numpy.cumsum([0, *(len(t) for _, t in prompts)]).astype(numpy.int32),
                "slots": numpy.concatenate(rows).astype(numpy.int32),
            }
        )


def _listed(prompts: Any, params: Any) -> tuple[list[Any], list[Any]]:
    """Prompts, and the parameters of each."""
    listed = list(listed_prompts(prompts))
    chosen = params or SamplingParams()
    return listed, list(chosen) if isinstance(chosen, Sequence) else [chosen] * len(listed)


def _last(run: EncoderDecoderRun) -> list[RequestOutput]:
    """What each prompt ends with."""
    outputs = dict(run.outputs())
    return [outputs[place] for place in range(len(run.asked))]
