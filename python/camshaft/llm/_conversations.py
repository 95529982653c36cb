"""From conversations to prompts: by the chat template of a model's folder, with the pictures that its messages show."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft._errors import FileError, InvalidArgumentError
from camshaft.llm._chat_images import without_images
from camshaft.llm._chat_template import ChatTemplate, checked_messages, checked_template_kwargs

if TYPE_CHECKING:
    from camshaft.llm._image_encoder import ImageEncoder, PreparedImage


class Conversations:
    """Of one model. folder: None of an engine without one; image_encoder: None of a model of text; tokenizer: gives it, or None
    where there is none. May be used from several threads."""

    def __init__(self, folder: Path | None, image_encoder: ImageEncoder | None, tokenizer: Callable[[], Any]) -> None:
        self._folder, self._image_encoder, self._tokenizer = folder, image_encoder, tokenizer
        self._chat_template: ChatTemplate | None = None
        self._making = threading.Lock()  # of the template, when it is needed

    def prompt(
        self,
        messages: Any,
        tools: Sequence[Mapping[str, Any]] | None,
        chat_template_kwargs: Mapping[str, Any] | None,
        **options: Any,
    ) -> dict[str, Any]:
        """As LLM.chat_prompt() gives it. options: of ChatTemplate.render().

        Raises InvalidArgumentError, and FileError of pictures, with the message and the part that are wrong."""
        images: list[PreparedImage] = []

        def take(image: Any, where: str) -> None:
            try:
                images.append(self.prepared_image(image, images))
            except (InvalidArgumentError, FileError) as error:
                raise type(error)(f"{where}: {error}") from None

        text = self.text(without_images(checked_messages(messages), take), tools, chat_template_kwargs, **options)
        # The template writes the special tokens, the first one, too.
        tokens = self._tokenizer().encode(text, add_special_tokens=False).ids
        return self.with_images({"prompt": text, "prompt_token_ids": tokens}, images)

    def text(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """What the template makes of messages that have marks for pictures. options: of ChatTemplate.render()."""
        tokenizer = self._tokenizer()
        if tokenizer is None or self._folder is None:
            raise InvalidArgumentError("a conversation needs the model's tokenizer.json and chat template")
        with self._making:
            if self._chat_template is None:
                self._chat_template = ChatTemplate(self._folder)
        placeholder = None if self._image_encoder is None else self._image_encoder.placeholder(tokenizer)
        more = checked_template_kwargs(chat_template_kwargs)
        return self._chat_template.render(messages, tools, image_placeholder=placeholder, **options, **more)

    def prepared_image(self, image: Any, beside: Sequence[PreparedImage] = ()) -> PreparedImage:
        """As LLM.prepared_image() gives it."""
        if self._image_encoder is None:
            raise InvalidArgumentError("the model reads text alone: it was built from no model of pictures")
        return self._image_encoder.prepare(image, beside)

    def with_images(self, prompt: dict[str, Any], images: Sequence[PreparedImage]) -> dict[str, Any]:
        """The prompt with as many placeholders as these have rows."""
        if self._image_encoder is None:
            return prompt
        tokens = self._image_encoder.expanded(prompt["prompt_token_ids"], images)
        return {**prompt, "prompt_token_ids": tokens, "multi_modal_data": {"image": list(images)}}
