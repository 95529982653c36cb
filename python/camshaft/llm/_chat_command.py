"""`camshaft llm chat`: a conversation in the terminal."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from camshaft._errors import Error, InvalidArgumentError
from camshaft.llm._image_encoder import PreparedImage
from camshaft.llm._llm import LLM
from camshaft.llm._lora_request import LoRARequest, add_lora_flag, requests_of_flags
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._speculative import add_speculation, config_of_flags
from camshaft.llm._standard_streams import OutputError, complain, say

_HELP = """/help            this text
/reset           begins anew
/system TEXT     begins anew with other instructions; without a text with none
/image FILE      shows a picture with the next question
/undo            takes the last question and its answer back
/set NAME=VALUE  sets an option of sampling, by the names of the command's options
/stats           what the last answer took
/exit            ends, as the end of the input does
Ctrl-C stops an answer."""
#: Of SamplingParams, with what they are for people.
_SAMPLING = {
    "temperature": (float, "0: the likeliest token; 1: as the model has it (default: 0.7)"),
    "top_p": (float, "the likeliest tokens that have this much of the probability together"),
    "top_k": (int, "of the likeliest tokens; 0: all"),
    "min_p": (float, "tokens that have this part of the likeliest one's probability"),
    "repetition_penalty": (float, "divides what is likely and was there already; 1: nothing"),
    "presence_penalty": (float, "off what was said already"),
    "frequency_penalty": (float, "the same, for each time"),
    "seed": (int, "of the random numbers: the same answers"),
    "max_tokens": (int, "of an answer; without it as many as there is place for"),
}
# Of terminals: a model's text shall not move their cursor.
_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def add_chat(commands: Any) -> None:
    text = "Talk to a built language model in the terminal."
    command = commands.add_parser("chat", help=text, description=text, epilog=_HELP, allow_abbrev=False)
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument("folder", metavar="DIR", help="that `camshaft llm build` made")
    command.add_argument("--system", metavar="TEXT", help="instructions that stand before the conversation")
    for name, (kind, what) in _SAMPLING.items():
        command.add_argument("--" + name.replace("_", "-"), type=kind, metavar="X", help=what)
    command.add_argument(
        "--image", action="append", metavar="FILE", help="shown with the first question; may be given several times"
    )
    command.add_argument("--stop", action="append", metavar="TEXT", help="ends an answer; may be given several times")
    command.add_argument("--chat-template", metavar="NAME", help="of the model's templates")
    command.add_argument("--max-model-len", type=int, metavar="N", help="tokens of a conversation")
    add_speculation(command)
    add_lora_flag(command, "the adapter that answers: of the model, or of a folder that PEFT wrote")
    command.add_argument("--device", metavar="X", help="cuda:N, where the engine is for GPUs")
    command.add_argument("--threads", type=int, metavar="N", help="one for each core without it")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    adapters = requests_of_flags(options.lora, Path(options.folder))
    if len(adapters) > 1:
        raise InvalidArgumentError("--lora: one adapter answers, and several are named")
    llm = LLM(
        options.folder,
        device=options.device,
        max_model_len=options.max_model_len,
        max_num_seqs=1,
        speculative_config=config_of_flags(
            options.speculative_model, options.num_speculative_tokens, options.draft_sample_method
        ),
        threads=options.threads,
    )
    llm._requests.check_task("generate")
    given: dict[str, Any] = {name: value for name in _SAMPLING if (value := getattr(options, name)) is not None}
    params = SamplingParams(**{"temperature": 0.7, "max_tokens": None, **given}, stop=options.stop)
    Chat(llm, params, options.system, options.chat_template, options.image or (), *adapters).run()


def as_text(line: str) -> str:
    """Bytes that are not UTF-8, as Python reads them, become the sign for what cannot be shown."""
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Chat:
    def __init__(
        self,
        llm: LLM,
        params: SamplingParams,
        system: str | None,
        template: str | None,
        images: Sequence[str] = (),
        adapter: LoRARequest | None = None,
    ) -> None:
        """images: files of pictures, shown with the first question."""
        self._llm, self._params, self._template, self._adapter = llm, params, template, adapter
        if adapter is not None:
            llm.add_lora(adapter)
        self._images: list[PreparedImage] = []
        for path in images:
            self._show(path)
        self._is_terminal = sys.stdin.isatty()
        self._last = "nothing was said yet"
        self._begin(system)
        self._prompt([*self._messages, {"role": "user", "content": ""}])  # what is wrong with the model shows at once

    def run(self) -> None:
        if self._is_terminal:
            say("/help says what there is besides talking; Ctrl-D ends.")
        for line in self._lines():
            try:
                if line.startswith("/"):
                    if not self._command(line):
                        return
                elif line.strip():
                    self._answer(line)
            except KeyboardInterrupt:  # before the answer began
                if not self._is_terminal:
                    raise
                say("")
            except OutputError:
                raise
            except (Error, ValueError) as error:
                complain(f"camshaft: error: {error}")
                if not self._is_terminal:
                    raise InvalidArgumentError("the conversation ends here, as its input is no terminal") from None

    def _lines(self) -> Iterator[str]:
        if not self._is_terminal:
            for line in sys.stdin:
                yield as_text(line.rstrip("\n"))
            return
        with contextlib.suppress(ImportError):
            importlib.import_module("readline")  # input() has a history then
        while True:
            try:
                yield as_text(input("> "))
            except KeyboardInterrupt:
                say("")
            except EOFError:
                say("")
                return

    def _command(self, line: str) -> bool:
        """Whether the conversation goes on."""
        name, _, rest = line[1:].strip().partition(" ")
        rest = rest.strip()
        if name in ("exit", "quit"):
            return False
        if name == "help":
            say(_HELP)
        elif name == "reset":
            self._begin(self._system)
        elif name == "system":
            self._begin(rest or None)
        elif name == "image":
            self._show(rest)
        elif name == "undo":
            kept = 1 if self._system is not None else 0
            del self._messages[max(kept, len(self._messages) - 2) :]
        elif name == "set":
            self._set(rest)
        elif name == "stats":
            say(self._last)
        else:
            raise InvalidArgumentError(f"there is no /{name}: /help says what there is")
        return True

    def _set(self, pair: str) -> None:
        name, separator, value = pair.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not separator or name not in _SAMPLING:
            raise InvalidArgumentError(f"/set NAME=VALUE, with a name of {', '.join(_SAMPLING)}")
        unset = None if name == "max_tokens" else getattr(SamplingParams(), name)
        changes: dict[str, Any] = {name: _SAMPLING[name][0](value) if value.strip() else unset}
        self._params = dataclasses.replace(self._params, **changes)

    def _begin(self, system: str | None) -> None:
        self._system = system
        self._messages: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]

    def _show(self, path: str) -> None:
        self._images.append(self._llm.prepared_image(Path(path), self._images))

    def _prompt(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        return self._llm.chat_prompt(messages, chat_template=self._template)

    def _answer(self, text: str) -> None:
        content: Any = text
        if self._images:
            content = [*({"type": "image", "image": image} for image in self._images), {"type": "text", "text": text}]
        conversation = [*self._messages, {"role": "user", "content": content}]
        prompt = self._prompt(conversation)
        self._images = []
        shown, count, begin, first = "", 0, time.monotonic(), None
        stream = self._llm.stream(prompt, self._params, lora_request=self._adapter)
        error = None
        try:
            for output in stream:
                one = output.outputs[0]
                first = first or time.monotonic()
                say(one.text[len(shown) :].translate(_CONTROLS), end="")
                shown, count, error = one.text, len(one.token_ids), one.error
        except KeyboardInterrupt:  # the answer alone is stopped
            if not self._is_terminal:
                raise
        finally:
            stream.close()  # type: ignore[attr-defined]
            say("")
        self._messages = [*conversation, {"role": "assistant", "content": shown}]
        end = time.monotonic()
        if first is not None:
            rate = (count - 1) / max(end - first, 1e-9)
            read = len(prompt["prompt_token_ids"])
            self._last = f"{read} tokens read in {first - begin:.2f} s, {count} written, {rate:.1f} a second"
        if error:
            raise InvalidArgumentError(error)
