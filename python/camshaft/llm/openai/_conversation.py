"""A conversation as a prompt: what chat completions and responses have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from camshaft.llm.openai._body import Body
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._messages import read_messages
from camshaft.llm.openai._sampling import structured_outputs
from camshaft.llm.openai._served import Served
from camshaft.llm.openai._tools import ToolChoice


class Conversation:
    """fields: of SamplingParams, which get the grammar; names: of messages, where the client has others."""

    def __init__(self, served: Served, body: Body, fields: dict[str, Any], names: Sequence[str] | None = None) -> None:
        self._served = served
        self._messages, self._characters, self._images = read_messages(body, served.llm, names)
        self.tools = ToolChoice(body)
        guide, self.guide_field = structured_outputs(body)
        forced = self.tools.structured_outputs()
        if guide is not None and forced is not None:
            raise RequestError(
                f"'tool_choice' and '{self.guide_field}' both say what the text is: give one", "tool_choice"
            )
        fields["structured_outputs"] = guide or forced

    def prompts(self, options: dict[str, Any], param: str) -> tuple[list[dict[str, Any]], int]:
        """The one prompt, and the bytes of its pictures. options: of the template; param: the field with the messages."""
        served = self._served
        served.check_text(self._characters + self.tools.characters, param)
        served.check_conversations(param)
        conversations = served.llm._conversations
        options = {
            "add_generation_prompt": True,
            "continue_final_message": False,
            "chat_template_kwargs": {},
            **options,
            "tools": self.tools.shown,
        }
        text = conversations.text(self._messages, **options)  # the template may write whatever it is given
        prompt = conversations.with_images(served.tokens_of(text, False, param), self._images)
        return [prompt], sum(image.nbytes for image in self._images)
