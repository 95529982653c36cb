"""Compiles a graph of aten's operators: as one engine where every operator has a converter, or else part by part, with
what is left run by PyTorch."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from camshaft import Error, Value, build
from camshaft._errors import InvalidArgumentError
from camshaft.torch import _cache
from camshaft.torch._conversion import DTYPES, Conversion, given_of, metadata_of
from camshaft.torch._options import Options, build_options, log
from camshaft.torch._region import Input, Output, Region
from camshaft.torch._registry import UnsupportedNode
from camshaft.torch._sizes import linear_form, symbols_of, text_of

Profiles = Mapping[str, Any]


class CompilationError(Error):
    """The graph has what stays with PyTorch, and require_full_compilation or pass_through_build_failures forbids it."""


def compiled_graph(
    gm: GraphModule, constants: Mapping[str, torch.Tensor], options: Options, profiles: Profiles | None = None
) -> GraphModule | Region:
    """What computes the graph: a Region for the whole of it, or the graph with Regions in it. `constants` are
    placeholders, by name, that are the same in every call; they stay among the arguments of a GraphModule."""
    refuse_training(gm)
    conversion = Conversion(gm, constants, options, lenient=True).run()
    if not conversion.refused and all(_is_result(result, conversion) for result, _ in conversion.outputs):
        region = _built(conversion, options, profiles, "the graph")
        if region is not None:
            _say(gm, {}, 1)
            return region
        return gm
    if options.require_full_compilation:
        raise CompilationError("these operators stay with PyTorch: " + _listed(conversion.refused))
    return _in_parts(gm, constants, options, conversion.refused, profiles)


def _is_result(result: Any, conversion: Conversion) -> bool:
    """Whether an engine can give it: no None, no number, no constant of the caller's."""
    return (
        isinstance(result, Node)
        and result in conversion.values
        and not isinstance(conversion.values[result], (torch.SymBool, torch.SymFloat))
    )


def copied(gm: GraphModule) -> GraphModule:
    """The same modules under a graph of its own, which compiling changes."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return GraphModule(gm, graph)


def refuse_training(gm: GraphModule) -> None:
    for node in gm.graph.nodes:
        name = str(node.target)
        training = (
            (name.startswith("aten.native_dropout") and node.args[2] is not False)
            or (name == "aten._native_batch_norm_legit.default" and node.args[5])
            or name.startswith("aten._native_batch_norm_legit_functional")
            or name.startswith("aten.bernoulli")
        )
        if training:
            raise InvalidArgumentError(
                f"the backend camshaft compiles for inference, and the graph has {name} in training mode: "
                "call model.eval() before torch.compile"
            )


def _listed(refused: Mapping[Node, str]) -> str:
    counted = collections.Counter(f"{node.target} ({reason})" for node, reason in refused.items())
    return "; ".join(f"{what}{f' ×{many}' if many > 1 else ''}" for what, many in counted.most_common())


def _say(gm: GraphModule, refused: Mapping[Node, str], parts: int) -> None:
    calls = sum(node.op == "call_function" for node in gm.graph.nodes)
    if refused:
        log.warning("%d of %d operators stay with PyTorch: %s", len(refused), calls, _listed(refused))
    log.info("%d operators in %d part%s", calls - len(refused), parts, "" if parts == 1 else "s")


def _in_parts(
    gm: GraphModule,
    constants: Mapping[str, torch.Tensor],
    options: Options,
    refused: dict[Node, str],
    profiles: Profiles | None,
) -> GraphModule:
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Supported(OperatorSupportBase):
        def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
            return node.op == "call_function" and node not in refused

    _say(gm, refused, 0)
    partitioner = CapabilityBasedPartitioner(gm, Supported(), allows_single_node_partition=True)
    partitions = []
    for partition in partitioner.propose_partitions():
        many = sum(isinstance(metadata_of(node), (torch.Tensor, tuple, list)) for node in partition.nodes)
        if many >= options.min_block_size:
            partitions.append(partition)
        else:
            log.info("a part of %d operators stays with PyTorch (min_block_size)", many)
    fused = partitioner.fuse_partitions(partitions, prefix="camshaft_")
    for node in list(fused.graph.nodes):
        if node.op == "call_module" and str(node.target).startswith("camshaft_"):
            _replace_part(fused, node, constants, options)
    fused.graph.lint()
    fused.recompile()
    return fused


def _replace_part(fused: GraphModule, node: Node, constants: Mapping[str, torch.Tensor], options: Options) -> None:
    part = fused.get_submodule(str(node.target))
    assert isinstance(part, GraphModule)
    placeholders = [inner for inner in part.graph.nodes if inner.op == "placeholder"]
    own: dict[str, torch.Tensor] = {}
    for inner, argument in zip(placeholders, node.args):
        inner.meta.setdefault("val", metadata_of(argument))  # type: ignore[arg-type]
        if isinstance(argument, Node):
            if argument.name in constants:
                own[inner.name] = constants[argument.name]
            elif argument.op == "get_attr":
                own[inner.name] = getattr(fused, str(argument.target))
    output = next(inner for inner in part.graph.nodes if inner.op == "output")
    single = not isinstance(output.args[0], (tuple, list))
    if single:
        output.args = ((output.args[0],),)
    try:
        conversion = Conversion(part, own, options, lenient=False).run()
        region = _built(conversion, options, None, str(node.target))
    except UnsupportedNode as error:
        if options.pass_through_build_failures:
            raise CompilationError(f"{node.target}: {error}") from error
        log.warning("%s stays with PyTorch: %s", node.target, error)
        region = None
    if region is None:
        if single:
            output.args = (output.args[0][0],)  # type: ignore[index]
        return
    keep = [i for i, inner in enumerate(placeholders) if inner.name not in own]
    node.args = tuple(node.args[i] for i in keep)
    fused.add_submodule(str(node.target), region)
    if single:
        with fused.graph.inserting_after(node):
            import operator

            result = fused.graph.call_function(operator.getitem, (node, 0))
            result.meta.update(node.meta)
        node.replace_all_uses_with(result, delete_user_cb=lambda user: user is not result)


def _built(conversion: Conversion, options: Options, profiles: Profiles | None, what: str) -> Region | None:
    """None where the build fails and PyTorch is to go on."""
    inputs = [_input_of(node, layout, conversion) for node, layout in conversion.inputs]
    known = {symbol for spec in inputs for _, symbol, _, _ in spec.symbols}
    outputs = [_output_of(number, *result, known) for number, result in enumerate(conversion.outputs)]
    if not any(spec.dtype is not None for spec in outputs):
        return None
    begun = time.monotonic()
    try:
        device = _device_of(conversion)
        chosen = {**build_options(options), **({} if device is None else {"device": device})}
        engine = _cache.engine_of(
            conversion,
            options,
            profiles,
            device,
            lambda: build(conversion.net, profiles=dict(profiles) if profiles else None, **chosen),
        )
    except (Error, UnsupportedNode) as error:
        if options.pass_through_build_failures:
            raise
        log.warning("%s stays with PyTorch, as its build failed: %s", what, error)
        return None
    log.info("%s: an engine of %d nodes after %.2f s", what, len(conversion.values), time.monotonic() - begun)
    return Region(engine, inputs, outputs, options.threads)


def _device_of(conversion: Conversion) -> str | None:
    """The GPU that the tensors are on, as "cuda:1"; None for the CPU."""
    tensors = [fake for node, _ in conversion.inputs if isinstance(fake := metadata_of(node), torch.Tensor)]
    gpus = {tensor.device for tensor in (*tensors, *conversion.constants.values()) if tensor.device.type == "cuda"}
    if len(gpus) > 1:
        raise UnsupportedNode(f"tensors on {' and '.join(sorted(map(str, gpus)))}")
    return next((f"cuda:{device.index or 0}" for device in gpus), None)


def _input_of(node: Node, layout: tuple[int, ...] | None, conversion: Conversion) -> Input:
    fake = metadata_of(node)
    if isinstance(fake, torch.Tensor):
        forms = [(axis, form) for axis, size in enumerate(fake.shape) if (form := linear_form(size)) is not None]
        symbols = tuple((axis, str(symbol), factor, rest) for axis, (symbol, factor, rest) in forms)
        bound = isinstance(conversion.values.get(node), Value)
        return Input(node.name, fake.dtype, DTYPES.get(fake.dtype, ""), layout, symbols, bound)
    form = linear_form(fake) if isinstance(fake, torch.SymInt) else None
    symbols = () if form is None else ((-1, str(form[0]), *form[1:]),)
    return Input(node.name, None, "i64", None, symbols, node in conversion.scalars)


def _output_of(number: int, result: Any, layout: tuple[int, ...] | None, known: set[str]) -> Output:
    fake = metadata_of(result)
    if isinstance(fake, torch.Tensor):
        made = metadata_of(given_of(result))
        sizes = tuple(text_of(size) for size in made.shape) if symbols_of(made.shape) <= known else None
        narrowed = fake.shape[-1] if made is not fake else None
        return Output(f"output{number}", fake.dtype, DTYPES[fake.dtype], sizes, layout, narrowed)
    if not symbols_of([fake]) <= known:
        raise UnsupportedNode(f"the size {fake}, which does not follow from this part's inputs")
    return Output(f"output{number}", None, "", (text_of(fake),), None)
