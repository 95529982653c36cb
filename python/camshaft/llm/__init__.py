"""Language models: from a Hugging Face folder to an engine.

    camshaft.llm.build("Llama-3.2-1B", "llama", weights="int4")    # writes llama/model.engine, llama/llm.json, …

docs/llm.md says what is read, and what the engine takes and gives in each step."""

from camshaft.llm._build import build, network

__all__ = ["build", "network"]
