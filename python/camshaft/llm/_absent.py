"""Arguments that programs for vLLM pass and that have no meaning here: each error says what does what is meant."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from camshaft._errors import InvalidArgumentError

_Class = TypeVar("_Class", bound=type)

_OF_BUILD = "that is chosen when the model is built: `camshaft llm build`"
_ONE_WAY = "there is one way to run an engine"
#: Of LLM.
OF_LLM = {
    "block_size": f"{_OF_BUILD} --block-size",
    "chat_template": "give it to chat() and chat_prompt()",
    "compilation_config": _ONE_WAY,
    "convert": f"{_OF_BUILD} --task",
    "cpu_offload_gb": "weights stay on the device; kv_offloading_size is for the cache",
    "disable_custom_all_reduce": _ONE_WAY,
    "disable_log_stats": "nothing is logged; statistics() counts",
    "dtype": f"{_OF_BUILD} --weights",
    "enable_chunked_prefill": "prompts are always computed in parts of max_num_batched_tokens",
    "enforce_eager": _ONE_WAY,
    "gpu_memory_utilization": "kv_cache_memory_bytes, or num_blocks, says how large the cache is",
    "hf_overrides": f"{_OF_BUILD}, from the folder's config.json",
    "hf_token": "nothing is fetched: models are folders",
    "kv_cache_dtype": f"{_OF_BUILD} --cache",
    "load_format": "engines are in one format",
    "logits_processors": "token_mask of SamplingParams says which tokens may come next",
    "max_seq_len_to_capture": _ONE_WAY,
    "mm_processor_kwargs": f"{_OF_BUILD}, from the folder's preprocessor_config.json",
    "num_gpu_blocks_override": "num_blocks says how many there are",
    "pipeline_parallel_size": "a model is shared out by tensor_parallel_size",
    "pooler_config": f"{_OF_BUILD} --task embed",
    "quantization": f"{_OF_BUILD} --weights",
    "revision": "nothing is fetched: models are folders",
    "runner": f"{_OF_BUILD} --task",
    "skip_tokenizer_init": "the tokenizer is read when a text needs it",
    "swap_space": "kv_offloading_size is the host's memory for the cache, in GiB",
    "task": f"{_OF_BUILD} --task",
    "tokenizer": "it is the folder's tokenizer.json",
    "tokenizer_mode": "it is the folder's tokenizer.json, by the package tokenizers",
    "tokenizer_revision": "nothing is fetched: models are folders",
    "trust_remote_code": "no code of models is run",
}
#: Of SamplingParams.
OF_SAMPLING = {
    "bad_words": "logit_bias takes single tokens away, and structured_outputs says what a text is like",
    "best_of": "ask for n texts with logprobs, and choose",
    "extra_args": "there is nobody who would read them",
    "flat_logprobs": "logprobs are dicts, one for each token",
    "guided_decoding": "it is called structured_outputs, as in vLLM since 0.11",
    "logits_processors": "token_mask says which tokens may come next",
    "output_kind": "stream() and generate_async() give all of the text so far",
    "spaces_between_special_tokens": "the tokenizer's decoder says where spaces are",
}


def explains(absent: Mapping[str, str]) -> Callable[[_Class], _Class]:
    """Of a class whose users pass such arguments."""

    def decorate(kind: _Class) -> _Class:
        plain = kind.__init__  # type: ignore[misc]

        @functools.wraps(plain)
        def explained(self: Any, *arguments: Any, **named: Any) -> None:
            for name in named:
                if name in absent:
                    raise InvalidArgumentError(f"{kind.__name__} has no {name}: {absent[name]}")
            plain(self, *arguments, **named)

        kind.__init__ = explained  # type: ignore[misc]
        return kind

    return decorate
