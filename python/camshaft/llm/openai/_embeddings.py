"""/v1/embeddings."""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from camshaft._errors import InvalidArgumentError
from camshaft.llm._pooling import EmbeddingRequestOutput, PoolingParams
from camshaft.llm.openai._body import Body
from camshaft.llm.openai._call import Call
from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._prompts import listed_prompts, prompt_of
from camshaft.llm.openai._sampling import take_idle
from camshaft.llm.openai._served import Served


class Embeddings(Call):
    prefix, kind = "embd-", "list"
    prompt_field = "input"

    def __init__(self, served: Served, body: Body) -> None:
        super().__init__(served)
        served.check_task("embed")
        take_idle(body)
        given = body.raw("input")
        self.priority = body.integer("priority", 0, -(1 << 31), (1 << 31) - 1)
        self._is_base64 = body.text("encoding_format", "float", options=("float", "base64")) == "base64"
        dimensions = body.integer("dimensions", None, 1, 1 << 31)
        normalize = body.flag("normalize") if body.has("normalize") else None
        add_special_tokens = body.flag("add_special_tokens", True)
        truncate = body.integer("truncate_prompt_tokens", None, -1, 1 << 31)
        body.finish()
        try:
            self.params = PoolingParams(dimensions, normalize, truncate)
            self.params.check_fits(served.llm._requests.hidden_size)
            most = self.params.most_tokens(served.longest)
        except InvalidArgumentError as error:
            raise RequestError(str(error), str(error).split(" ", 1)[0]) from None
        prompts = listed_prompts(given, "input")
        served.check_sequences(len(prompts), 1, "input")  # before all are cut into tokens
        try:
            self.prompts = [prompt_of(served, each, add_special_tokens, "input", most) for each in prompts]
        except InvalidArgumentError as error:
            raise RequestError(str(error), "truncate_prompt_tokens") from None
        for prompt in self.prompts:
            served.check_prompt(len(prompt["prompt_token_ids"]), "input")

    def reply(self, outputs: Sequence[EmbeddingRequestOutput]) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": place, "embedding": self._written(output.outputs.embedding)}
            for place, output in enumerate(outputs)
        ]
        tokens = sum(len(output.prompt_token_ids) for output in outputs)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {**self._head(self.kind), "data": data, "usage": usage}

    def _written(self, embedding: list[float]) -> Any:
        """In base64 it is fp32, the lowest byte first."""
        if not self._is_base64:
            return embedding
        numbers = array("f", embedding)
        if sys.byteorder == "big":
            numbers.byteswap()
        return base64.b64encode(numbers.tobytes()).decode("ascii")
