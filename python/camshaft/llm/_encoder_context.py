"""The engine of an encoder, which writes keys and values into the memory that a decoder reads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft import _native
from camshaft._arrays import Memory
from camshaft._engine import Engine
from camshaft._errors import CorruptEngineError
from camshaft.llm._folder import ENCODER_ENGINE

if TYPE_CHECKING:
    from camshaft.llm._llm import LLM


class EncoderContext:
    """Beside the decoder of `llm`, in the same folder. May be used from several threads, one of which runs it."""

    def __init__(self, llm: LLM, folder: Path, device: str | None, threads: int) -> None:
        engine = Engine(folder / ENCODER_ENGINE, device)
        self._context = engine.create_context(threads)
        self._lock = threading.Lock()
        names = {info.name for info in engine.inputs}
        for name, address, dtype, sizes, place in _native.generator_cross_memory(llm._steps.generator):
            if name not in names:
                raise CorruptEngineError(
                    f"{folder / ENCODER_ENGINE}: no encoder of the engine beside it: it has no {name}"
                )
            memory = Memory(address, dtype, sizes, place, owner=llm)
            kind, _, layer = name.rpartition(".")
            self._context.set_input(name, memory)
            self._context.bind_output(f"{kind}_out.{layer}", memory)

    def run(self, inputs: dict[str, Any], *wanted: str) -> list[Any]:
        """Arrays of these outputs, of those beside the keys and values."""
        import numpy

        with self._lock:
            outputs = self._context.run(inputs)
            return [numpy.from_dlpack(outputs[name]).copy() for name in wanted]
