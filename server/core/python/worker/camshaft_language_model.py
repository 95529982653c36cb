"""The model of a version with llm.json: OpenAI's interface over the package camshaft."""

import sys

try:
    from camshaft.llm.openai import TritonPythonModel
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("camshaft"):
        raise
    raise ImportError(
        f"a language model needs the Python package camshaft, which {sys.executable} does not have: install it there "
        "(pip install 'camshaft[llm]'), or name another Python with CAMSHAFT_PYTHON"
    ) from None

__all__ = ["TritonPythonModel"]
