"""torch.compile(model, backend="camshaft"): what PyTorch calls with each graph that it captured."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

from camshaft.torch._attention import keep_attention
from camshaft.torch._graph import compiled_graph, copied
from camshaft.torch._lowering import decompositions
from camshaft.torch._options import Options, log, parsed
from camshaft.torch._padding import pad_results
from camshaft.torch._region import Region
from camshaft.torch._shared import take_views_apart


def backend(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    **keywords: Any,
) -> Callable[..., Any]:
    """A function of the graph's inputs that gives its outputs. Parameters and buffers become constants of the engines;
    where they have changed when it is called, the engines are made again."""
    from torch._dynamo import disable
    from torch._functorch.aot_autograd import aot_module_simplified

    chosen = parsed({**_usual_options(example_inputs), **(options or {}), **keywords})
    _warn_of_gradients(gm, example_inputs)

    def compile_for_inference(graph: GraphModule, fakes: Sequence[Any]) -> Callable[..., Any]:
        return _Compiled(graph, _constants_of(graph, example_inputs), chosen)

    with torch.no_grad():  # a graph for inference alone is traced then
        run = aot_module_simplified(
            keep_attention(gm),
            list(example_inputs),
            fw_compiler=compile_for_inference,
            inference_compiler=compile_for_inference,
            decompositions=decompositions(),
        )
    return disable(run, reason="it is compiled")


def _usual_options(example_inputs: Sequence[Any]) -> dict[str, Any]:
    # Who calls for the first time waits: on an H200 the first result of ResNet-50 comes in half of inductor's time with
    # these, and the cost model's choices alone take a tenth longer (MobileNetV2's at batch 8 half as long again).
    on_gpu = any(isinstance(value, torch.Tensor) and value.is_cuda for value in example_inputs)
    return {"tuning_seconds": 4} if on_gpu else {}


def _warn_of_gradients(gm: GraphModule, example_inputs: Sequence[Any]) -> None:
    if torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad and not isinstance(value, torch.nn.Parameter)
        for value in example_inputs
    ):
        warnings.warn(
            "an input requires grad: the backend camshaft is for inference, and its results have no gradient "
            "(call it under torch.no_grad(), or compile for training with another backend)",
            stacklevel=2,
        )


def _constants_of(graph: GraphModule, example_inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """Parameters and buffers by their place among the graph's arguments, where PyTorch says which these are. They are
    inputs of what it captured or, where it does not look into modules (as with inductor's freezing), the module's own,
    which come first then."""
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    own = list(getattr(context, "params_flat", None) or ())
    given = [*own, *example_inputs]
    if metadata is None or len(placeholders) != len(given):
        return {}
    found: dict[int, torch.Tensor] = {}
    for place in sorted({*range(len(own)), *metadata.static_input_indices}):
        value = given[place]
        fake = placeholders[place].meta.get("val")
        written = metadata.input_info[place].mutates_data
        if type(value) in (torch.Tensor, torch.nn.Parameter) and not written and fake.shape == value.shape:
            found[place] = value
    return found


class _Compiled:
    """What runs a graph. It is compiled again where constants are other tensors than they were, or were written."""

    _boxed_call = True

    def __init__(self, graph: GraphModule, constants: dict[int, torch.Tensor], options: Options) -> None:
        self._graph, self._options = graph, options
        self._places = list(constants)
        many = sum(node.op == "placeholder" for node in graph.graph.nodes)
        self._others = [place for place in range(many) if place not in constants]
        self._addresses: list[int | None] = [None] * many
        self._compile(list(constants.values()))

    def _compile(self, constants: list[torch.Tensor]) -> None:
        self._constants = constants
        self._versions = list(map(_version, constants))
        for place, constant in zip(self._places, constants):
            self._addresses[place] = constant.data_ptr()
        with _disable_current_modes():  # constants are computed with, not traced
            graph = copied(self._graph)
            names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
            held = {names[place]: tensor for place, tensor in zip(self._places, constants)}
            pad_results(graph, held)
            self._views = take_views_apart(graph)
            self._run = compiled_graph(graph, held, self._options)
        self._whole = isinstance(self._run, Region)

    def __call__(self, given: list[Any]) -> Any:
        results = self._run(*self._arguments(given))
        # Behind the run: a GPU computes meanwhile.
        if self._places:
            constants = [given[place] for place in self._places]
            if not self._are_those(constants, given):
                log.warning("parameters or buffers have changed since they were compiled: compiled again")
                self._compile(constants)
                results = self._run(*self._arguments(given))
        given.clear()
        return results if self._views is None else self._views(results)

    def _arguments(self, given: list[Any]) -> list[Any]:
        return [given[place] for place in self._others] if self._whole else given

    def _are_those(self, constants: list[torch.Tensor], given: list[Any]) -> bool:
        """Whether none is another tensor, was written in place or has other memory. Every call asks: of 105 tensors the
        addresses, one by one, took as long as the versions."""
        return (
            all(map(operator.is_, constants, self._constants))
            and list(map(_version, constants)) == self._versions
            and _addresses_are(given, self._addresses, self._places)
        )


_version = operator.attrgetter("_version")


def _addresses_are(tensors: list[Any], addresses: list[int | None], places: list[int]) -> bool:
    take = operator.itemgetter(*places, places[0])  # a tuple, also of one
    return list(map(torch.Tensor.data_ptr, take(tensors))) == list(take(addresses))


# PyTorch's own, in C++, which its builds for GPUs have.
_addresses_are = getattr(torch._C, "_tensors_data_ptrs_at_indices_equal", _addresses_are)
