"""Text or embeddings by a built language model, for many requests at once."""

from __future__ import annotations

import asyncio
import json
import os
import queue
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

from camshaft import _native
from camshaft._engine import Engine
from camshaft._errors import InvalidArgumentError
from camshaft.llm._absent import OF_LLM, explains
from camshaft.llm._beam_search import (
    BeamRequest,
    BeamSearchOutput,
    BeamSearchParams,
    beam_search_output,
    searched_params,
)
from camshaft.llm._cache_size import blocks_of_caches, blocks_of_host
from camshaft.llm._checks import (
    check_flag,
    check_positive,
    check_threads,
    check_whole,
    listed_priorities,
    plain_number,
)
from camshaft.llm._conversations import Conversations
from camshaft.llm._folder import hidden_size_of, lazy_tokenizer, ranks_of, read_description
from camshaft.llm._image_encoder import ImageEncoder, PreparedImage
from camshaft.llm._lora_request import LoRARequest, Loras, checked_loras, loras_of_model, place_of
from camshaft.llm._outputs import RequestOutput
from camshaft.llm._pooling import (
    EmbeddingRequest,
    EmbeddingRequestOutput,
    PoolingParams,
    pooling_configuration,
)
from camshaft.llm._prompts import Prompt, listed_prompts
from camshaft.llm._rank_start import Started, start_ranks
from camshaft.llm._request_maker import RequestMaker
from camshaft.llm._requests import Request
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._speculative import speculation_of
from camshaft.llm._step_loop import StepLoop

if TYPE_CHECKING:
    from camshaft._types import Path as AnyPath

_T = TypeVar("_T")
_AnyRequest = Union[Request, EmbeddingRequest, BeamRequest]


@explains(OF_LLM)
class LLM:
    """The model of a folder that `camshaft llm build` made.

    llm = LLM("llama")
    for output in llm.generate(["Once upon a time", "The answer is"], SamplingParams(max_tokens=64)):
        print(output.outputs[0].text)

    A model that was built with task="embed" has embed(), others generate() and what is like it.

    model: the folder, or an engine, of which `description` is what its llm.json would say.
    max_model_len: tokens of the longest sequence; the model's without it.
    max_num_seqs: sequences that are decoded at once; max_num_batched_tokens: tokens of a step, with parts of prompts.
    num_blocks: blocks of the cache; kv_cache_memory_bytes: its bytes, with those of a draft model's. Without either as many
        as all sequences may need, and a quarter of the device's memory at most.
    kv_offloading_size: GiB of the host's memory for blocks that leave the cache, those of texts that were preempted and of
        beginnings that nobody uses: they come back instead of being computed again. None without it.
    enable_prefix_caching: whether beginnings of prompts that were computed are used again.
    speculative_config: {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}, or
        {"method": "draft_model", "model": FOLDER, "num_speculative_tokens": 4} for guesses of a smaller built model (or an
        Engine) of the same vocabulary. Texts are those without guesses, unless "draft_sample_method" is "probabilistic": then guesses
        are drawn as texts are, more of them come true, and a text that is drawn is another one of the same distribution.
    enable_lora: whether requests may name adapters (LoRARequest); where the model was built with some it is so without.
    max_loras: adapters that are in memory at once; as many as the folder has without it, and one at least.
    seed: of requests that have none.
    threads: of the engine, of each rank's where there are several; one for each core without it, which ranks share out.
    limit_mm_per_prompt: {"image": N}: pictures of a prompt, 999 without it.
    allowed_local_media_path: a folder whose pictures "file:" URLs of conversations may name; none without it.
    tensor_parallel_size: ranks that the model was built for, which the folder says, too. distributed_executor_backend: where
        ranks but the first run: "threads" of this process (what it is without it), "mp", processes of their own, or
        "external_launcher", those that torchrun has started, which call camshaft.llm.run_rank(). See docs/tensor_parallel.md.
    max_encoder_seqs: sounds whose keys and values an encoder may have ready, where the engine reads such: see Whisper.

    May be used from several threads, and from event loops (generate_async); all requests run together."""

    def __init__(
        self,
        model: AnyPath | Engine,
        *,
        description: dict[str, Any] | None = None,
        device: str | None = None,
        max_model_len: int | None = None,
        max_num_seqs: int = 32,
        max_num_batched_tokens: int = 512,
        num_blocks: int | None = None,
        kv_cache_memory_bytes: int | None = None,
        kv_offloading_size: float | None = None,
        enable_prefix_caching: bool = True,
        speculative_config: dict[str, Any] | None = None,
        enable_lora: bool | None = None,
        max_loras: int | None = None,
        seed: int = 0,
        threads: int | None = None,
        limit_mm_per_prompt: Mapping[str, int] | None = None,
        allowed_local_media_path: str = "",
        tensor_parallel_size: int | None = None,
        distributed_executor_backend: str | None = None,
        max_encoder_seqs: int = 0,
    ) -> None:
        needed = {"max_num_seqs": max_num_seqs, "max_num_batched_tokens": max_num_batched_tokens, "seed": seed}
        for name, number in {**needed, "max_encoder_seqs": max_encoder_seqs}.items():
            check_whole(name, number)
        usual = {"max_model_len": max_model_len, "num_blocks": num_blocks, "tensor_parallel_size": tensor_parallel_size}
        for name, given in usual.items():
            check_whole(name, given, may_be_none=True)
        check_positive("kv_cache_memory_bytes", kv_cache_memory_bytes, may_be_none=True)
        check_threads("threads", threads)
        check_flag("enable_prefix_caching", enable_prefix_caching)
        if enable_lora is not None:
            check_flag("enable_lora", enable_lora)
        self._folder: Path | None = None
        if not isinstance(model, (str, os.PathLike, Engine)):
            raise InvalidArgumentError(f"model is {model!r}; the folder of a built model or an Engine is needed")
        if isinstance(model, Engine):
            self.description = dict(description or {})
        else:
            self._folder = Path(os.fspath(model))
            self.description = read_description(self._folder)
        # What is wrong without a look at the engine is said before other ranks start.
        longest = self._checked_length(max_model_len)
        of_pictures = {
            "limit_mm_per_prompt": limit_mm_per_prompt,
            "allowed_local_media_path": allowed_local_media_path,
        }
        if "vision" not in self.description and (wrong := next((n for n, each in of_pictures.items() if each), None)):
            raise InvalidArgumentError(f"{wrong} is of models that read pictures, and this one reads text alone")
        speculation = speculation_of(speculative_config, self._folder, device)
        self.draft_engine = speculation.draft
        if isinstance(model, Engine):
            ranks = Started(model, [], None, threads or 0)
        else:
            ranks = start_ranks(
                Path(os.fspath(model)),
                self.description,
                device,
                tensor_parallel_size,
                distributed_executor_backend,
                threads,
            )
        self.engine = ranks.engine
        with ranks.ended_by_errors():
            self.task = "embed" if hidden_size_of(self.engine) else "generate"
            if self.task == "embed" and speculative_config is not None:
                raise InvalidArgumentError(
                    "speculative_config: the model gives embeddings, of which nothing is guessed"
                )
            num_blocks, draft_num_blocks = blocks_of_caches(
                self.engine,
                speculation.draft,
                longest,
                max_num_seqs,
                num_blocks,
                kv_cache_memory_bytes,
                spare=int(self.task == "generate"),
            )
            self._loras: Loras | None = loras_of_model(
                self.engine, self.description, self._folder, enable_lora, max_loras
            )
            configuration = {
                "max_num_seqs": max_num_seqs,
                "max_num_batched_tokens": max(max_num_batched_tokens, max_num_seqs),
                "max_model_len": longest,
                "num_blocks": num_blocks,
                "num_host_blocks": blocks_of_host(
                    self.engine,
                    ranks_of(self.description, self._folder or Path()),
                    kv_offloading_size,
                    caches_prefixes=enable_prefix_caching,
                ),
                "enable_prefix_caching": enable_prefix_caching,
                "eos_token_ids": list(self.description.get("eos_ids") or ()),
                "seed": seed,
                "num_cross_blocks": self._cross_blocks(max_encoder_seqs),
                "draft_num_blocks": draft_num_blocks,
                "max_loras": 0 if self._loras is None else self._loras.max_loras,
                **speculation.settings,
            }
            if self.task == "embed":
                configuration |= pooling_configuration(
                    self.engine, self.description, longest, configuration["max_num_batched_tokens"]
                )
            drafter = None if self.draft_engine is None else self.draft_engine._engine
            self._steps = StepLoop(
                _native.create_generator(
                    self.engine._engine,
                    drafter,
                    json.dumps(configuration, default=plain_number),
                    ranks.threads,
                    [each._engine for each in ranks.others],
                    ranks.communicator,
                ),
                overlaps=self.engine.device.startswith("cuda"),
            )
            self.image_encoder: ImageEncoder | None = None  #: of a model that reads pictures
            if self._folder is not None and "vision" in self.description:
                self.image_encoder = ImageEncoder(
                    self._folder,
                    self.description,
                    self.engine,
                    device=device,
                    threads=threads or 0,
                    longest=longest,
                    limit_mm_per_prompt=limit_mm_per_prompt,
                    allowed_local_media_path=allowed_local_media_path,
                )
            if self._loras is not None:
                self._loras.load_first(self._steps)
        self._tokenizer_of = lazy_tokenizer(self._folder)
        self._conversations = Conversations(self._folder, self.image_encoder, self._tokenizer_of)
        self._requests = RequestMaker(
            self._steps,
            self.description,
            longest,
            hidden_size_of(self.engine) or 0,
            self._loras,
            self.image_encoder,
            self._tokenizer_of,
        )

    def _checked_length(self, max_model_len: int | None) -> int:
        known = self.description.get("max_length")
        longest: int | None = known if max_model_len is None else max_model_len
        if longest is None:
            raise InvalidArgumentError("max_model_len is needed for an engine without a description")
        # What is no number the engine's loading refuses.
        if isinstance(known, int) and not isinstance(known, bool) and longest > known:
            raise InvalidArgumentError(f"max_model_len is {longest}; the model was built for {known} tokens at most")
        return longest

    def _cross_blocks(self, sequences: int) -> int:
        of_one, _, _ = _native.generator_cross_cache(self.engine._engine)
        if of_one > 0 and sequences < 1:
            where = "the engine" if self._folder is None else str(self._folder)
            raise InvalidArgumentError(
                f"{where}: a model with an encoder: camshaft.llm.EncoderDecoderLLM or `camshaft llm serve` runs it"
                if "speech" not in self.description
                else f"{where}: a model of speech: camshaft.llm.Whisper or `camshaft llm transcribe` runs it"
            )
        return of_one * sequences

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: object = False,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
        priority: Sequence[int] | None = None,
    ) -> list[RequestOutput]:
        """The texts of prompts, in their order. A prompt is a text or a list of tokens' numbers, or a dict with pictures:
        {"prompt": "What is <image>?", "multi_modal_data": {"image": picture}}, of PIL or arrays u8 [height, width, 3], one
        for each placeholder. sampling_params are one for all, or one for each; lora_request, the adapter, likewise;
        priority, where lower ones run first, one for each. use_tqdm is for programs that pass it: no progress is shown.

        Raises InvalidArgumentError for what could never run, and what a token_mask raises; what else goes wrong later is in
        the output's `error`."""
        return self._results_of_all(prompts, sampling_params, priority, lora_request)

    def beam_search(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: BeamSearchParams | Sequence[BeamSearchParams],
        *,
        use_tqdm: object = False,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
        priority: Sequence[int] | None = None,
    ) -> list[BeamSearchOutput]:
        """The likeliest texts of prompts that beam search finds, in the prompts' order, each prompt's by their score. A
        prompt is as in generate(), and so is lora_request; params one for all, or one for each; priority, where lower ones
        run first, one for each.

        Raises InvalidArgumentError for what could never run, and Error for what goes wrong later."""
        listed = listed_prompts(prompts)
        searched = searched_params(params, len(listed))
        results = self._results_of_all(listed, searched, priority, lora_request)
        return [beam_search_output(result, one, self.tokenizer) for result, one in zip(results, searched)]

    def embed(
        self,
        prompts: Prompt | Sequence[Prompt],
        pooling_params: PoolingParams | Sequence[PoolingParams] | None = None,
        *,
        use_tqdm: object = False,
    ) -> list[EmbeddingRequestOutput]:
        """The embeddings of prompts, in their order; of a model that was built with task="embed". A prompt is a text, whose
        special tokens are added as its tokenizer has them, or a list of tokens' numbers; pooling_params one for all, or one
        for each.

        Raises InvalidArgumentError for what could never run, and Error for an embedding that is not finite."""
        self._requests.check_task("embed")
        return self._results_of_all(prompts, pooling_params or PoolingParams(), None)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]] | Sequence[Sequence[Mapping[str, Any]]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: object = False,
        chat_template: str | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
    ) -> list[RequestOutput]:
        """The answers to a conversation, or to several: lists of dicts of `role` and `content`. lora_request:
        as generate() has it. The rest is chat_prompt()'s."""
        is_list = isinstance(messages, Sequence) and not isinstance(messages, str)
        several = is_list and bool(messages) and not isinstance(messages[0], Mapping)
        prompts = [
            self.chat_prompt(
                each,  # type: ignore[arg-type]
                chat_template=chat_template,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                tools=tools,
                chat_template_kwargs=chat_template_kwargs,
            )
            for each in (messages if several else [messages])
        ]
        return self.generate(prompts, sampling_params, lora_request=lora_request)

    def chat_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        chat_template: str | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The prompt of a conversation, for generate(), stream() and generate_async(). Of a model that reads pictures contents
        may have these as parts: {"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}, or {"type":
        "image", "image": a picture}.

        chat_template: the name of one of the model's templates, or a template. tools: JSON schemas of functions that the
        model may call. chat_template_kwargs: what else the template knows, as {"enable_thinking": False}."""
        self._requests.check_task("generate")
        return self._conversations.prompt(
            messages,
            tools,
            chat_template_kwargs,
            chat_template=chat_template,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
        )

    def prepared_image(self, image: Any, beside: Sequence[PreparedImage] = ()) -> PreparedImage:
        """A picture of a conversation, for its messages: of PIL, an array, a Path, or a URL ("data:", and "file:" within
        allowed_local_media_path). beside: those in front of it."""
        return self._conversations.prepared_image(image, beside)

    def stream(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
        priority: Sequence[int] | None = None,
    ) -> Iterator[RequestOutput]:
        """The same while they grow: after each step the outputs that have changed, each with all of its text so far."""
        results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        requests = self._add_all(prompts, sampling_params, priority, results.put, True, lora_request)
        try:
            self._steps.start_thread()
            left = len(requests)
            while left > 0:
                result = _checked(results.get())
                left -= result.finished
                yield result
        finally:
            self._steps.abort(requests)

    async def generate_async(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        lora_request: LoRARequest | None = None,
        priority: int = 0,
    ) -> AsyncIterator[RequestOutput]:
        """For event loops: `async for output in llm.generate_async(...)` gives the text so far after each step that it grew
        in. The request ends with the loop around it."""
        loop = asyncio.get_running_loop()
        results: asyncio.Queue[_Result] = asyncio.Queue()

        def changed(result: _Result) -> None:
            if not loop.is_closed():  # of one that has ended nobody waits
                loop.call_soon_threadsafe(results.put_nowait, result)

        params = sampling_params or SamplingParams()
        request = await loop.run_in_executor(
            None,
            lambda: self._steps.between_steps(
                self._requests.prepared(prompt, params, priority, changed, True, request_id, lora=lora_request)
            ),
        )
        try:
            self._steps.start_thread()
            finished = False
            while not finished:
                result = _checked(await results.get())
                finished = result.finished
                yield result
        finally:
            if not request.finished:
                await asyncio.shield(loop.run_in_executor(None, self._steps.abort, [request]))

    def abort(self, request_id: str) -> bool:
        """Ends the requests of this name, whose outputs end with the finish reason "abort". False where there is none."""
        self._steps.check_thread()

        return self._steps.abort_named(request_id)

    def add_lora(self, lora_request: LoRARequest) -> None:
        """Brings an adapter into memory, so that its first request does not wait for it.

        Raises InvalidArgumentError for one that does not fit, and where max_loras others are in use."""
        self._steps.between_steps(place_of(self._loras, lora_request, self._steps))

    def remove_lora(self, lora_name: str) -> None:
        """Forgets an adapter, so that another one may have its name. Raises InvalidArgumentError for one that is unknown or in
        use."""
        loras = checked_loras(self._loras)
        self._steps.between_steps(lambda: loras.remove(lora_name, self._steps))

    def list_loras(self) -> dict[str, Path]:
        """The adapters that requests may name, and where each is from."""
        return {} if self._loras is None else dict(self._loras.paths)

    @property
    def tokenizer(self) -> Any:
        """Of the package `tokenizers`; None where the folder has no tokenizer.json."""
        return self._tokenizer_of()

    def statistics(self) -> dict[str, int]:
        """Counts since the start: steps, tokens that were computed, generated, guessed (drafted) and accepted, how often a
        sequence was guessed (drafts), preemptions, passes of a draft model, and blocks of the caches, those that were
        offloaded into the host's memory and restored from there; requests that run and wait."""
        return _native.generator_statistics(self._steps.generator)

    def _results_of_all(self, prompts: Any, params: Any, priority: Any, lora: Any = None) -> list[Any]:
        """arguments: of _add_all(). What became of the requests, when all have ended; all end with an interrupt."""
        results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        requests = self._add_all(prompts, params, priority, results.put, False, lora)
        try:
            self._steps.start_thread()
            for _ in requests:
                results.get()
        finally:
            self._steps.abort(requests)
        return [_result_of(request) for request in requests]

    def _add_all(
        self, prompts: Any, params: Any, priority: Sequence[int] | None, changed: Any, streams: bool, lora: Any
    ) -> list[Any]:
        self._steps.check_thread()
        listed = listed_prompts(prompts)
        chosen = [params or SamplingParams()] * len(listed) if not isinstance(params, Sequence) else list(params)
        priorities = listed_priorities(priority, len(listed))
        loras = list(lora) if isinstance(lora, Sequence) else [lora] * len(listed)
        for what, given in (("sampling_params", chosen), ("priority", priorities), ("lora_request", loras)):
            if len(given) != len(listed):
                raise InvalidArgumentError(f"{what} has {len(given)} items for {len(listed)} prompts")
        ready = [
            self._requests.prepared(prompt, one, urgency, changed, streams, lora=adapter)
            for prompt, one, urgency, adapter in zip(listed, chosen, priorities, loras)
        ]
        requests: list[_AnyRequest] = []

        def add_all() -> None:  # between two steps, so that all begin together
            for add in ready:
                requests.append(add())

        try:
            self._steps.between_steps(add_all)
        except BaseException:
            self._steps.abort(requests)
            raise
        return requests


_Result = Union[Any, BaseException]


def _checked(result: _Result) -> Any:
    if isinstance(result, BaseException):
        raise result
    return result


def _result_of(request: _AnyRequest) -> Any:
    return _checked(request.failed or request.output())
