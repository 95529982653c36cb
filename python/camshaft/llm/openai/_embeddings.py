"""/v1/embeddings."""

from __future__ import annotations

from typing import NoReturn

from camshaft.llm.openai._errors import RequestError
from camshaft.llm.openai._served import Served


def refuse_embeddings(served: Served) -> NoReturn:
    """An engine gives logits alone."""
    raise RequestError(
        f"The model '{served.name}' has no embeddings: engines of `camshaft llm build` give logits alone", "model"
    )
