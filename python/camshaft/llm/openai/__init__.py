"""OpenAI's interface to language models, as `camshaft serve` has it: the server hands the bodies of calls to the model below
and sends what comes of it. docs/llm_serving.md says what the fields of calls are."""

from camshaft.llm.openai._model import TritonPythonModel

__all__ = ["TritonPythonModel"]
