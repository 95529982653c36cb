"""The model that calls are answered by, and what its prompts may be."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from camshaft.llm._encoder_decoder import EncoderDecoderLLM
from camshaft.llm._llm import LLM
from camshaft.llm._lora_request import LoRARequest
from camshaft.llm._prompts import text_tokens
from camshaft.llm._whisper import Whisper
from camshaft.llm.openai._encoded import EncodedRunning
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._logprobs import TokenTexts
from camshaft.llm.openai._running import Running

if TYPE_CHECKING:
    from camshaft.llm.openai._call import Call

#: A text is refused unread where it has more characters than so many times what the longest prompt could have if all of its
#: tokens were the vocabulary's longest: normalizers may drop some.
_MARGIN = 4


#: What the models of a task do, and where.
_TASKS = {
    "generate": "generates text: ask for it at /v1/completions or /v1/chat/completions",
    "embed": "gives embeddings, and no text: ask for them at /v1/embeddings",
    "transcribe": "hears sounds: send them to /v1/audio/transcriptions or /v1/audio/translations",
}
_LONGEST_SOUND = 3600  # seconds, which are held in f32 while they are heard


def _check_task(name: str, task: str, wanted: str) -> None:
    if task != wanted:
        what = _TASKS[task]
        if (task, wanted) == ("generate", "embed"):
            what = "generates text, and has no embeddings: build it with --task embed for these"
        raise RequestError(f"The model '{name}' {what}", "model")


class ServedSpeech:
    """ears: threads that hear sounds, so many as windows are decoded at once; longest: samples of a sound."""

    def __init__(self, whisper: Whisper, name: str, max_num_seqs: int) -> None:
        self.whisper, self.name, self.llm = whisper, name, whisper._llm
        self.ears = concurrent.futures.ThreadPoolExecutor(max_num_seqs, "camshaft.llm.hear")
        self.longest = _LONGEST_SOUND * whisper._speech.sampling_rate
        self.lora_request: LoRARequest | None = None  #: it has no adapters

    def check_task(self, task: str) -> None:
        _check_task(self.name, "transcribe", task)


class Served:
    """most: sequences of a call. folder: of the model."""

    def __init__(
        self, llm: LLM, name: str, longest: int, most: int, folder: str = "", allows_updates: bool = False
    ) -> None:
        self.llm, self.name, self.longest, self.most, self._folder = llm, name, longest, most, folder
        self.allows_updates = allows_updates  #: whether calls load adapters
        self.lora_request: LoRARequest | None = None  #: of the adapter that is called by its name
        self.texts = TokenTexts(llm.tokenizer)
        self._most_characters = 0
        if llm.tokenizer is not None:
            widest = max(map(len, llm.tokenizer.get_vocab()), default=1)
            self._most_characters = _MARGIN * widest * longest

    def named(self, model: Any) -> Served:
        """What a call is answered by that names a model: this one, or one of its adapters, which has that name then."""
        if model is None or model == self.name:
            return self
        if not isinstance(model, str) or model not in self.llm.list_loras():
            raise RequestError(
                f"The model {model!r} does not exist: GET /v1/models lists those that do",
                "model",
                404,
                "model_not_found",
            )
        made = copy.copy(self)
        made.name, made.lora_request = model, LoRARequest(model)
        return made

    def models(self) -> list[dict[str, Any]]:
        """The entries of /v1/models."""
        own = self._entry(self.name, self._folder, None)
        return [own, *(self._entry(name, str(path), self.name) for name, path in self.llm.list_loras().items())]

    def _entry(self, name: str, root: str, parent: str | None) -> dict[str, Any]:
        card = {"id": name, "object": "model", "created": 0, "owned_by": "camshaft", "root": root, "parent": parent}
        return {**card, "max_model_len": self.longest}

    def check_text(self, characters: int, param: str) -> None:
        if self.llm.tokenizer is not None and characters > self._most_characters:
            raise self.too_long(f"your {param} has {characters} characters, which are more tokens than that", param)

    def tokens_of(self, text: str, add_special_tokens: bool, param: str, most: int | None = None) -> dict[str, Any]:
        """most: tokens that a text is cut to."""
        tokenizer = self.llm.tokenizer
        if tokenizer is None:
            raise RequestError(f"The model '{self.name}' has no tokenizer: give '{param}' as tokens' numbers", param)
        if most is None:
            self.check_text(len(text), param)
        read = text if most is None else text[: self._most_characters]
        return {"prompt": text, "prompt_token_ids": text_tokens(tokenizer, read, most, add_special_tokens)}

    def check_sequences(self, prompts: int, samples: int, param: str = "prompt") -> None:
        if prompts * samples > self.most:
            of_each = f" of {samples} texts each" if param == "prompt" else ""
            raise RequestError(f"{prompts} prompts{of_each} are more than {self.most}", param)

    def check_task(self, task: str) -> None:
        _check_task(self.name, self.llm.task, task)

    def check_conversations(self, param: str) -> None:
        """That it is asked by messages at all."""
        if self.llm.tokenizer is None:
            raise RequestError(f"The model '{self.name}' has no tokenizer, and so no conversations", param)

    def check_echo(self, prompt_logprobs: bool) -> None:
        """That a text with its prompt, and what is known of that, can be given."""

    def running(self, loop: asyncio.AbstractEventLoop, call: Call) -> Any:
        """What runs the call."""
        return Running(self.llm, loop, call)

    def check_prompt(self, length: int, param: str) -> None:
        """Of one that nothing follows."""
        if length == 0:
            raise RequestError(f"'{param}' has a prompt without a token", param)
        if length > self.longest:
            raise self.too_long(f"you requested {length} tokens in the {param}", param)

    def max_tokens(self, prompts: Sequence[Mapping[str, Any]], wanted: int | None, param: str) -> int:
        """As many as are wanted, or as there is place for behind the longest prompt."""
        length = max(len(prompt["prompt_token_ids"]) for prompt in prompts)
        if length == 0:
            raise RequestError(f"'{param}' has no token", param)
        left = self.longest - length
        if wanted is None and left >= 1:
            return left
        if wanted is None or wanted > left:
            asked = f" and {wanted} for the completion" if wanted is not None else ""
            raise self.too_long(f"you requested {length} tokens in the {param}{asked}", param)
        return wanted

    def too_long(self, what: str, param: str) -> RequestError:
        text = f"This model's maximum context length is {self.longest} tokens. However, {what}."
        return RequestError(text + f" Please reduce the length of the {param}.", param, code="context_length_exceeded")


class ServedEncoderDecoder(Served):
    """A model that reads a prompt by an encoder: the prompt and the text have room of their own. readers: threads that wait
    for their calls' texts, as many as prompts have memory for what the encoder made of them."""

    def __init__(self, model: EncoderDecoderLLM, name: str, most: int, folder: str) -> None:
        super().__init__(model._llm, name, model._longest, most, folder)
        self.model = model
        self.readers = concurrent.futures.ThreadPoolExecutor(model._slots.count, "camshaft.llm.encoder_decoder")

    def max_tokens(self, prompts: Sequence[Mapping[str, Any]], wanted: int | None, param: str) -> int:
        for prompt in prompts:
            self.check_prompt(len(prompt["prompt_token_ids"]), param)
        room: int = self.llm.description["max_length"] - 1  # behind the token that texts begin with
        if wanted is not None and wanted > room:
            raise RequestError(f"This model's texts have {room} tokens at most; you requested {wanted}", "max_tokens")
        return room if wanted is None else wanted

    def check_conversations(self, param: str) -> None:
        raise RequestError(
            f"The model '{self.name}' has an encoder for a prompt, and no conversations: ask it at /v1/completions",
            param,
        )

    def check_echo(self, prompt_logprobs: bool) -> None:
        if prompt_logprobs:
            raise RequestError(
                "'echo' with 'logprobs' is of models that continue their prompt, as this one does not", "echo"
            )

    def running(self, loop: asyncio.AbstractEventLoop, call: Call) -> Any:
        return EncodedRunning(self, loop, call)
