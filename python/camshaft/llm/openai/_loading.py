"""The model of a folder, by the texts that a server's configuration has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from camshaft._errors import InvalidArgumentError
from camshaft.llm._encoder_decoder import EncoderDecoderLLM
from camshaft.llm._folder import read_description
from camshaft.llm._image_encoder import limits_of
from camshaft.llm._llm import LLM
from camshaft.llm._lora import named_paths
from camshaft.llm._lora_request import LoRARequest
from camshaft.llm._speculative import config_of_flags
from camshaft.llm._whisper import Whisper
from camshaft.llm.openai._served import Served, ServedEncoderDecoder, ServedSpeech

_INTEGERS = (
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "num_blocks",
    "kv_cache_memory_bytes",
    "max_loras",
    "threads",
)
MOST_QUEUED = 1024
#: Of models of speech, and how many windows of sounds they decode at once.
_OF_SPEECH = ("max_num_seqs", "seed", "threads", "device")
_WINDOWS = 8
_OF_ENCODERS = ("max_num_seqs", "max_num_batched_tokens", "seed", "threads", "device")


def load(folder: Path, name: str, given: Mapping[str, str], base: Path) -> tuple[Union[Served, ServedSpeech], int]:
    """What is served, and how many sequences may run and wait. given: parameters by their names; base: the folder from which
    paths in them go on."""
    parameters = _read(dict(given), base)
    most_queued = parameters.pop("max_queued", MOST_QUEUED)
    return serve_folder(folder, name, parameters, most_queued), most_queued


def serve_folder(folder: Path, name: str, parameters: dict[str, Any], most: int) -> Union[Served, ServedSpeech]:
    """parameters: arguments of LLM, EncoderDecoderLLM or Whisper; most: sequences of a call."""
    description = read_description(folder)
    if "speech" in description:
        if unknown := sorted(parameters.keys() - set(_OF_SPEECH)):
            raise InvalidArgumentError(
                f"{folder}: a model of speech has no {unknown[0]}: it has {', '.join(_OF_SPEECH)}"
            )
        parameters = {"max_num_seqs": _WINDOWS, **parameters}
        return ServedSpeech(Whisper(folder, **parameters), name, parameters["max_num_seqs"])
    if "encoder" in description:
        if unknown := sorted(parameters.keys() - set(_OF_ENCODERS)):
            raise InvalidArgumentError(
                f"{folder}: a model with an encoder has no {unknown[0]}: it has {', '.join(_OF_ENCODERS)}"
            )
        return ServedEncoderDecoder(EncoderDecoderLLM(folder, **parameters), name, most, str(folder))
    allows_updates, adapters = (parameters.pop(n, None) for n in ("allow_runtime_lora_updating", "lora_modules"))
    names = {*_adapters_of(description), *(adapters or {})}
    if name in names:
        raise InvalidArgumentError(
            f"{folder}: the adapter '{name}' has the name of the model: calls could not tell them apart"
        )
    if adapters and parameters.get("max_loras") is None:  # so that all have a place
        parameters = {**parameters, "max_loras": len(names)}
    llm = LLM(folder, **parameters)
    for adapter, path in (adapters or {}).items():
        llm.add_lora(LoRARequest(adapter, None, path))
    longest = parameters.get("max_model_len") or llm.description["max_length"]
    return Served(llm, name, longest, most, str(folder), bool(allows_updates))


def _adapters_of(description: dict[str, Any]) -> list[str]:
    """None of a description that lies, which LLM refuses."""
    lora = description.get("lora")
    named = lora.get("adapters") if isinstance(lora, dict) else None
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def _read(given: dict[str, str], base: Path) -> dict[str, Any]:
    """Arguments of LLM, EncoderDecoderLLM or Whisper."""
    made: dict[str, Any] = {}
    try:
        for name in (*_INTEGERS, "max_queued", "seed"):
            if name in given:
                made[name] = int(given.pop(name))
        if made.get("max_queued", 1) < 1:
            raise ValueError(f"max_queued is {made['max_queued']}: every call would be refused; give 1 or more")
        for name in ("enable_prefix_caching", "enable_lora", "allow_runtime_lora_updating"):
            if name in given:
                made[name] = {"true": True, "false": False}[given.pop(name)]
        if "kv_offloading_size" in given:
            made["kv_offloading_size"] = float(given.pop("kv_offloading_size"))
        guesses = int(given.pop("num_speculative_tokens")) if "num_speculative_tokens" in given else None
    except (KeyError, ValueError) as error:
        raise InvalidArgumentError(f"parameters of the configuration: {error}") from None
    limits, media = given.pop("limit_mm_per_prompt", None), given.pop("allowed_local_media_path", None)
    if limits is not None:
        made["limit_mm_per_prompt"] = limits_of(limits)
    if media:  # empty: none
        made["allowed_local_media_path"] = str(base / media)
    if "lora_modules" in given:
        modules = named_paths(given.pop("lora_modules").split())
        made["lora_modules"] = {name: base / path for name, path in modules.items()}
    draft, sampling = given.pop("speculative_model", None), given.pop("draft_sample_method", None)
    if (speculation := config_of_flags(draft and str(base / draft), guesses, sampling)) is not None:
        made["speculative_config"] = speculation
    for name in ("device", "distributed_executor_backend"):
        if name in given:
            made[name] = given.pop(name)
    given.pop("EXECUTION_ENV_PATH", None)
    if given:
        raise InvalidArgumentError(f"the configuration has a parameter '{sorted(given)[0]}' that no language model has")
    return made
