"""A part of a graph that an engine computes, as a module over PyTorch's tensors."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import torch

from camshaft import Engine, _native
from camshaft._errors import InvalidArgumentError
from camshaft.torch._conversion import inverse
from camshaft.torch._sizes import evaluator


@dataclasses.dataclass(frozen=True)
class Input:
    """An argument. What is no tensor of the engine's is a number that sizes may need."""

    name: str
    dtype: torch.dtype | None  # None: not a tensor
    ours: str
    layout: tuple[int, ...] | None  # the axes as they are in memory, where that is not row-major
    symbols: tuple[tuple[int, str, int, int], ...]  # (axis, s, a, b): the size there is a s + b; -1: the value itself
    bound: bool  # whether the engine reads it


@dataclasses.dataclass(frozen=True)
class Output:
    """A result. `sizes` are numbers, or text over the symbols."""

    name: str
    dtype: torch.dtype | None  # None: a size
    ours: str
    sizes: tuple[int | str, ...] | None  # None: the engine says
    layout: tuple[int, ...] | None
    narrowed: int | None = None  # how many of the columns are given; None: all


class Region(torch.nn.Module):
    """Runs an engine. `inputs` and `outputs` are in the graph's order. Any thread may call it; each has a context of
    its own. Tensors are bound where they are: an argument is copied where it is not laid out as the engine reads it."""

    def __init__(self, engine: Engine, inputs: list[Input], outputs: list[Output], threads: int) -> None:
        super().__init__()
        self._hold(engine, inputs, outputs, threads)

    def _hold(self, engine: Engine, inputs: list[Input], outputs: list[Output], threads: int) -> None:
        self.engine = engine
        self.input_specs, self.output_specs, self.threads = inputs, outputs, threads
        self._gpu = _native.device(engine._engine)
        self._device = None if self._gpu < 0 else torch.device("cuda", self._gpu)
        self._sizes_of = [_sizes_of(output) for output in outputs]
        self._of_thread = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {
            "engine": bytes(self.engine),
            "device": self.engine.device,
            "inputs": self.input_specs,
            "outputs": self.output_specs,
            "threads": self.threads,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        torch.nn.Module.__init__(self)
        engine = Engine(state["engine"], state["device"])
        self._hold(engine, state["inputs"], state["outputs"], state["threads"])

    def __deepcopy__(self, memo: Any) -> Region:
        made = Region.__new__(Region)
        torch.nn.Module.__init__(made)
        made._hold(self.engine, self.input_specs, self.output_specs, self.threads)
        return made

    def _context(self) -> Any:
        """A thread's context, and the tensors that are bound to it: by their names, (address, sizes)."""
        threads = self.threads or torch.get_num_threads()
        contexts = self._of_thread.__dict__
        if threads not in contexts:
            contexts[threads] = _native.create_context(self.engine._engine, threads), {}
        return contexts[threads]

    def forward(self, *given: Any) -> Any:
        context, bound = self._context()
        gpu = self._gpu
        symbols: dict[str, int] = {}
        held = []  # what is bound, until the run is done
        for spec, value in zip(self.input_specs, given):
            for axis, symbol, factor, rest in spec.symbols:
                symbols[symbol] = ((value.shape[axis] if axis >= 0 else int(value)) - rest) // factor
            if not spec.bound:
                continue
            if spec.dtype is None:
                value = torch.tensor(value)
            elif spec.layout is not None:
                value = value.permute(spec.layout)
            if not value.is_contiguous():
                value = value.contiguous()
            held.append(value)
            place = value.data_ptr(), value.shape
            if bound.get(spec.name) != place:
                _native.set_input(context, spec.name, _native.dlpack_of_address(place[0], spec.ours, place[1], gpu))
                bound[spec.name] = place
        results: list[Any] = []
        for spec, sizes_of in zip(self.output_specs, self._sizes_of):
            if spec.dtype is None:
                results.append(sizes_of(symbols)[0])  # type: ignore[misc]
                continue
            sizes: Any = spec.sizes
            if sizes is None:
                sizes = _native.output_shape(context, spec.name)
            elif sizes_of is not None:
                sizes = sizes_of(symbols)
            if spec.layout is not None:
                sizes = [sizes[axis] for axis in spec.layout]
            made = torch.empty(sizes, dtype=spec.dtype, device=self._device)
            place = made.data_ptr(), made.shape
            if bound.get(spec.name) != place:
                capsule = _native.dlpack_of_address(place[0], spec.ours, sizes, gpu)
                _native.bind_output(context, spec.name, spec.ours, capsule)
                bound[spec.name] = place
            if spec.narrowed is not None:
                results.append(made.narrow(-1, 0, spec.narrowed))
            else:
                results.append(made if spec.layout is None else made.permute(inverse(spec.layout)))
        if gpu < 0:
            _native.run(context)
        else:
            _native.enqueue(context, _stream(gpu))
        return results

    def check_place(self, value: torch.Tensor, what: str) -> None:
        """Raises InvalidArgumentError where the tensor is not where the engine reads it: what address it has there says
        nothing here."""
        wanted = torch.device("cpu") if self._gpu < 0 else torch.device("cuda", self._gpu)
        found = value.device if value.device.type != "cuda" else torch.device("cuda", value.device.index or 0)
        if found != wanted:
            raise InvalidArgumentError(f"{what} is on {value.device}; the engine was compiled for {wanted}")

    def extra_repr(self) -> str:
        return repr(self.engine)


def _stream(gpu: int) -> int:
    return torch.cuda.current_stream(gpu).cuda_stream  # type: ignore[no-any-return]


# PyTorch's generated code asks so, too: without an object.
_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _stream)


def _sizes_of(output: Output) -> Any:
    """None where sizes are numbers already."""
    if output.sizes is None or (output.dtype is not None and all(isinstance(size, int) for size in output.sizes)):
        return None
    return evaluator(output.sizes)


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a dense tensor on the host, without a copy."""
    import numpy

    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return memoryview(numpy.from_dlpack(flat))  # type: ignore[arg-type]


__all__ = ["Input", "Output", "Region", "bytes_of"]
