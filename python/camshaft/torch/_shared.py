"""Results that share memory: a tensor and views of it. An engine gives each result in memory of its own, so that one that
is written in place would leave the other as it was; PyTorch takes the views of what the engine gives instead."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

Tail = Callable[[Sequence[Any]], list[Any]]


def take_views_apart(gm: GraphModule) -> Tail | None:
    """Where several results are views of one tensor that the graph computes, makes that tensor a result instead of them.
    Returns what makes the graph's results of the new ones; None where there are none such."""
    output = next(node for node in gm.graph.nodes if node.op == "output")
    results = list(output.args[0])  # type: ignore[arg-type]
    chains = {node: _views_up_to(node) for node in results if isinstance(node, Node)}
    distinct: dict[Node, int] = {}
    for chain in chains.values():
        distinct[chain[0]] = distinct.get(chain[0], 0) + 1
    shared = {  # in the results' order, as engines are kept by their graphs
        node: chain[1:]
        for node, chain in chains.items()
        if len(chain) > 1 and chain[0].op == "call_function" and distinct[chain[0]] > 1
    }
    if not shared:
        return None
    views = torch.fx.Graph()
    placed: dict[Node, Node] = {}

    def given(node: Node) -> Node:
        if node not in placed:
            with views.inserting_before(first):
                placed[node] = views.placeholder(node.name)
        return placed[node]

    first = views.call_function(tuple, ((),))
    for steps in shared.values():
        for view in steps:
            if view not in placed:
                for read in view.all_input_nodes:
                    given(read)
                placed[view] = views.node_copy(view, lambda read: placed[read])
    outside = [placed[node] if node in shared else given(node) if isinstance(node, Node) else node for node in results]
    views.output(outside)
    views.erase_node(first)
    inside = [node for node, place in placed.items() if place.op == "placeholder"]
    output.args = (tuple(inside),)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    run = GraphModule(torch.nn.Module(), views)
    return lambda made: list(run(*made))


def _views_up_to(node: Node) -> list[Node]:
    """The tensor that owns the memory, and the views from it to the node."""
    chain = [node]
    while (source := _viewed(chain[0])) is not None:
        chain.insert(0, source)
    return chain


def _viewed(node: Node) -> Node | None:
    """What the node is a view of, or an element of several views."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return None
    source = node.args[0]
    if node.target is operator.getitem:
        return source if _viewed(source) is not None else None
    schema = getattr(node.target, "_schema", None)
    alias = schema.arguments[0].alias_info if schema is not None and schema.arguments else None
    return source if alias is not None and not alias.is_write else None


__all__ = ["take_views_apart"]
