"""camshaft::run, the operator by which exported programs hold engines: their bytes are a buffer, how tensors are bound a text."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from camshaft import Engine
from camshaft._errors import InvalidArgumentError
from camshaft.torch._conversion import DTYPES, inverse
from camshaft.torch._region import Input, Output, Region, bytes_of
from camshaft.torch._sizes import evaluator

_TYPES = {str(dtype): dtype for dtype in DTYPES}


class ExportedRegion(torch.nn.Module):
    """What torch.export sees of a Region: one call of the operator."""

    def __init__(self, region: Region) -> None:
        super().__init__()
        self.register_buffer("engine", torch.frombuffer(bytearray(bytes(region.engine)), dtype=torch.uint8))
        self._numbers = [spec.dtype is None for spec in region.input_specs]
        self._results = [spec.dtype is None for spec in region.output_specs]
        self._signature = signature_of(region)

    def forward(self, *given: Any) -> Any:
        tensors = [value for value, number in zip(given, self._numbers) if not number]
        numbers = [value for value, number in zip(given, self._numbers) if number]
        results = iter(torch.ops.camshaft.run(tensors, numbers, self.engine, self._signature))
        if not any(self._results):
            return list(results)
        inputs, described, *_ = _read(self._signature)
        sizes = _symbols(inputs, tensors, numbers)
        return [evaluator(spec.sizes)(sizes)[0] if spec.dtype is None else next(results) for spec in described]


def signature_of(region: Region) -> str:
    """How the operator's arguments are bound to the engine, as JSON."""
    ranks = {value.name: len(value.shape) for value in region.engine.outputs}

    def fields(spec: Input | Output) -> dict[str, Any]:
        found = dataclasses.asdict(spec)
        found["dtype"] = None if spec.dtype is None else str(spec.dtype)
        if isinstance(spec, Output):
            found["rank"] = ranks.get(spec.name, 0)
        return found

    return json.dumps(
        {
            "inputs": [fields(spec) for spec in region.input_specs],
            "outputs": [fields(spec) for spec in region.output_specs],
            "device": region.engine.device,
            "threads": region.threads,
        }
    )


def _read(signature: str) -> tuple[list[Input], list[Output], list[int], str, int]:
    """The inputs, the outputs and their ranks, the device and the threads. Files bring it: nothing of it is believed."""
    try:
        found = json.loads(signature)

        def spec(made: Any, of: dict[str, Any]) -> Any:
            of = {key: tuple(value) if isinstance(value, list) else value for key, value in of.items()}
            dtype = of["dtype"]
            of["dtype"] = None if dtype is None else _TYPES[dtype]
            if dtype is not None and DTYPES[of["dtype"]] != of["ours"]:
                raise ValueError(f"'{of['ours']}' is not {dtype}")
            if made is Input:
                of["symbols"] = tuple((int(a), str(s), int(f), int(r)) for a, s, f, r in of["symbols"])
            return made(**of)

        inputs = [spec(Input, of) for of in found["inputs"]]
        ranks = [int(of.pop("rank")) for of in found["outputs"]]
        outputs = [spec(Output, of) for of in found["outputs"]]
        for output in outputs:
            evaluator(output.sizes or ())
        return inputs, outputs, ranks, str(found["device"]), int(found["threads"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"camshaft::run has a damaged signature: {type(error).__name__}: {error}") from error


def _symbols(inputs: list[Input], tensors: list[Any], numbers: list[Any]) -> dict[str, Any]:
    """The sizes that the arguments have, which torch.export then knows to be related as the engine needs them."""
    symbols: dict[str, Any] = {}
    given = (iter(tensors), iter(numbers))
    for spec in inputs:
        value = next(given[spec.dtype is None])
        for axis, symbol, factor, rest in spec.symbols:
            size = value.shape[axis] if axis >= 0 else value
            symbols.setdefault(symbol, (size - rest) // factor)
            torch._check(symbols[symbol] * factor + rest == size)
    return symbols


torch.library.define("camshaft::run", "(Tensor[] tensors, SymInt[] numbers, Tensor engine, str signature) -> Tensor[]")


@torch.library.register_fake("camshaft::run")
def _shapes(tensors: list[Any], numbers: list[Any], engine: Any, signature: str) -> list[Any]:
    inputs, outputs, ranks, device, _ = _read(signature)
    symbols = _symbols(inputs, tensors, numbers)
    where = torch.device("cpu" if device == "cpu" else device)
    results = []
    for spec, rank in zip(outputs, ranks):
        if spec.dtype is None:
            continue
        if spec.sizes is None:
            sizes: Any = [torch.library.get_ctx().new_dynamic_size() for _ in range(rank)]
        else:
            sizes = evaluator(spec.sizes)(symbols)
        if spec.layout is None:
            results.append(torch.empty(sizes, dtype=spec.dtype, device=where))
        else:
            made = torch.empty([sizes[axis] for axis in spec.layout], dtype=spec.dtype, device=where)
            results.append(made.permute(inverse(spec.layout)))
    return results


# The engines of the buffers that hold their bytes, with the signature that each was loaded for.
_loaded: Any = WeakTensorKeyDictionary()


def _region_of(engine: torch.Tensor, signature: str) -> Region:
    found = _loaded.get(engine)
    if found is None or found[0] != signature:
        inputs, outputs, _, device, threads = _read(signature)
        found = (signature, Region(Engine(bytes(bytes_of(engine)), device), inputs, outputs, threads))
        _loaded[engine] = found
    return found[1]


@torch.library.impl("camshaft::run", "CompositeExplicitAutograd")
def _run(tensors: list[Any], numbers: list[Any], engine: Any, signature: str) -> list[Any]:
    region = _region_of(engine, signature)
    given = (iter(tensors), iter(numbers))
    if sum(spec.dtype is None for spec in region.input_specs) != len(numbers) or len(region.input_specs) != len(
        tensors
    ) + len(numbers):
        raise InvalidArgumentError(f"camshaft::run has {len(tensors)} tensors and {len(numbers)} numbers: {signature}")
    arguments = [next(given[spec.dtype is None]) for spec in region.input_specs]
    for spec, value in zip(region.input_specs, arguments):
        if spec.dtype is None:
            continue
        if value.dtype != spec.dtype:
            raise InvalidArgumentError(f"'{spec.name}' is {value.dtype}; the engine takes {spec.dtype}")
        region.check_place(value, f"'{spec.name}'")
    results = region(*arguments)
    return [result for spec, result in zip(region.output_specs, results) if spec.dtype is not None]
