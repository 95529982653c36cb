"""Results of products whose rows a GPU would not write whole: 50,257 columns of 16 bits begin at another byte of 16 in
each row. They are computed with a few columns more, of zeros, and given without: 1,024 rows of 768 by GPT-2's
vocabulary take 110 us on an H200 and not 181. The tensor has the stride of the wider rows then, as inductor's has."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.fx import GraphModule, Node

from camshaft.torch._conversion import NARROWED, metadata_of

aten = torch.ops.aten
_TRANSPOSES = (aten.permute.default, aten.transpose.int, aten.t.default)
_VIEWS = (aten.view.default, aten._unsafe_view.default)
_PRODUCTS = {aten.mm.default: 1, aten.addmm.default: 2}  # the place of the second factor
_WHOLE = 8  # elements of 16 bits that are written together
_LEAST = 1 << 22  # elements, below which it does not pay for a factor of its own


def pad_results(gm: GraphModule, constants: Collection[str]) -> None:
    """Widens such products, whose second factor is one of the placeholders `constants` or an attribute, and which are
    results of the graph and nothing else. Slices of these are the results then: the graph computes the same, also where
    PyTorch runs some of it, or all."""
    output = next(node for node in gm.graph.nodes if node.op == "output")
    for result in dict.fromkeys(node for node in output.args[0] if isinstance(node, Node)):  # type: ignore[union-attr]
        chain = _product_of(result, output) if isinstance(metadata_of(result), torch.Tensor) else None
        if chain is not None and _is_worth_it(chain, constants):
            _widen(gm, chain, output)
            gm.recompile()


def _product_of(result: Node, output: Node) -> list[Node] | None:
    """The product, and the views of it up to the result, where nothing else reads one of them."""
    chain = [result]
    while set(chain[0].users) == {chain[1] if len(chain) > 1 else output}:
        if chain[0].target in _PRODUCTS:
            return chain
        columns = metadata_of(chain[0]).shape[-1:]
        source = chain[0].args[0] if chain[0].target in _VIEWS else None
        if not isinstance(source, Node) or metadata_of(source).shape[-1:] != columns:
            return None
        chain.insert(0, source)
    return None


def _is_worth_it(chain: list[Node], constants: Collection[str]) -> bool:
    fake, product = metadata_of(chain[-1]), chain[0]
    factor = product.args[_PRODUCTS[product.target]]  # type: ignore[index]
    while isinstance(factor, Node) and factor.target in _TRANSPOSES:
        factor = factor.args[0]
    is_constant = isinstance(factor, Node) and (factor.name in constants or factor.op == "get_attr")
    return (
        is_constant
        and fake.is_cuda
        and fake.dtype in (torch.float16, torch.bfloat16)
        and all(isinstance(size, int) for size in fake.shape)
        and fake.is_contiguous()
        and fake.shape[-1] % _WHOLE != 0
        and fake.numel() >= _LEAST
    )


def _widen(gm: GraphModule, chain: list[Node], output: Node) -> None:
    product, columns = chain[0], metadata_of(chain[-1]).shape[-1]
    more = -columns % _WHOLE

    def wider(node: Node) -> Node:
        with gm.graph.inserting_before(product):
            made = gm.graph.call_function(aten.constant_pad_nd.default, (node, [0, more], 0.0))
        made.meta["val"] = torch.nn.functional.pad(metadata_of(node), [0, more])
        return made

    factors = list(product.args)
    place = _PRODUCTS[product.target]  # type: ignore[index]
    factors[place] = wider(factors[place])  # type: ignore[arg-type]
    if place == 2 and metadata_of(factors[0]).shape[-1] == columns:  # type: ignore[arg-type]
        factors[0] = wider(factors[0])  # type: ignore[arg-type]
    product.args = tuple(factors)
    for node in chain:
        if node.target in _VIEWS:
            node.args = (node.args[0], [*node.args[1][:-1], columns + more])  # type: ignore[index]
        fake = metadata_of(node)
        node.meta["val"] = fake.new_empty([*fake.shape[:-1], columns + more])
    wide = chain[-1]
    with gm.graph.inserting_after(wide):
        given = gm.graph.call_function(aten.slice.Tensor, (wide, metadata_of(wide).ndim - 1, 0, columns))
    given.meta.update({"val": metadata_of(wide).narrow(-1, 0, columns), NARROWED: True})
    output.replace_input_with(wide, given)


__all__ = ["pad_results"]
