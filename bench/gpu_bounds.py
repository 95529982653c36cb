"""How fast a model could be on this GPU: for each product, convolution and attention the larger of its arithmetic at the
measured peak and its bytes, each read or written once, at the measured bandwidth. What lies between them is not counted.

Nothing is left out silently: an operator that is neither counted nor known to have no products is an error (Uncounted).
"""

import contextlib
import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten

# Beside PyTorch's own formulas.
FORMULAS = {
    # As a whole: in parts its scores would be written and read.
    aten.scaled_dot_product_attention: flop_registry[aten._scaled_dot_product_flash_attention],
    aten._scaled_dot_product_flash_attention_for_cpu: flop_registry[aten._scaled_dot_product_flash_attention],
}

# Operators without products that say so by none of PyTorch's tags: they make, move, choose, compare or sum elements, or
# normalise along axes. Views and what is tagged as pointwise or a reduction need no entry.
FREE = frozenset(
    """
    arange empty empty_like empty_strided eye full full_like lift_fresh new_empty new_empty_strided new_full new_ones
    new_zeros ones ones_like rand randint randn scalar_tensor tril_indices triu_indices zeros zeros_like
    _local_scalar_dense _nested_tensor_from_mask_left_aligned is_nonzero
    _reshape_alias _to_copy _unsafe_index _unsafe_view cat clone constant_pad_nd contiguous copy copy_ flip gather im2col index
    index_put index_select nonzero pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d repeat
    replication_pad2d roll scatter select_scatter slice_scatter split_with_sizes_copy stack tril triu unfold_copy
    embedding fill fill_ masked_fill masked_fill_ masked_select zero_
    adaptive_avg_pool1d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d avg_pool2d max_pool2d_with_indices
    upsample_nearest1d upsample_nearest2d upsample_bicubic2d upsample_bilinear2d _upsample_bicubic2d_aa
    _upsample_bilinear2d_aa _upsample_nearest_exact2d
    _log_softmax _safe_softmax _softmax cudnn_batch_norm native_batch_norm _native_batch_norm_legit
    _native_batch_norm_legit_no_training native_group_norm native_layer_norm _fused_rms_norm
    all amax amin any argmax argmin cummax cumsum logsumexp max mean min prod sort std sum topk var var_mean
    _assert_async _fused_sdp_choice as_strided_ elu_ hardsigmoid_ hardswish hardswish_ hardtanh_ isin leaky_relu_
    native_dropout silu_ softplus
    """.split()
)


class Uncounted(RuntimeError):
    """A module has operators of which it is not known how much arithmetic they are."""


def is_free(function):
    """Whether an operator has no products: a view, a pointwise operator, a reduction, or one of FREE."""
    returns = [value.alias_info for value in function._schema.returns]
    if returns and all(alias is not None and not alias.is_write for alias in returns):
        return True
    tags = {getattr(torch.Tag, name, None) for name in ("pointwise", "reduction")} - {None}
    return bool(tags & set(function.tags)) or (
        function.namespace == "aten" and function.overloadpacket.__name__ in FREE
    )


def milliseconds(run, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run()
    begin.record()
    for _ in range(count):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def limits():
    """What the device reaches: {name, tflops of fp16 products, gbs of a copy, bytes read and written counted}."""
    size = 8192
    a, b, c = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(3))
    product = milliseconds(lambda: torch.mm(a, b, out=c), 10)
    source, target = (torch.empty(1 << 30, device="cuda", dtype=torch.uint8) for _ in range(2))
    copy = milliseconds(lambda: target.copy_(source), 5)
    return {
        "name": torch.cuda.get_device_name(),
        "tflops": 2 * size**3 / product * 1e-9,
        "gbs": 2 * source.numel() / copy * 1e-6,
    }


def stored_bytes(tensor):
    """What is repeated along an axis of stride 0, as weights in a product of many matrices, counts once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.element_size() * math.prod(size for size, stride in sizes if stride != 0 or size == 0)


class Costs(TorchDispatchMode):
    """[(FLOP, bytes)] of the contractions that PyTorch is asked for, and the names of operators that it cannot tell."""

    def __init__(self):
        super().__init__()
        self.costs, self.uncounted = [], set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        formula = FORMULAS.get(function.overloadpacket) or flop_registry.get(function.overloadpacket)
        if formula is None:  # linear, conv2d, …: what they are made of
            with self:
                parts = function.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = function(*args, **kwargs)
        if formula is not None:
            first = result[0] if isinstance(result, (tuple, list)) else result
            tensors = [leaf for leaf in tree_leaves((args, kwargs, first)) if isinstance(leaf, torch.Tensor)]
            size = sum(map(stored_bytes, tensors))
            self.costs.append((formula(*args, **kwargs, out_val=result), size))
        elif not is_free(function):
            self.uncounted.add(function.overloadpacket._qualified_op_name)
        return result


@contextlib.contextmanager
def plain_attention():
    """Within it nn.MultiheadAttention and nn.TransformerEncoderLayer are made of products that can be counted, and not one
    operator each (_native_multi_head_attention), whose projections and attention no formula covers."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def counted(module, inputs):
    """[(FLOP, bytes)] of the contractions of module(*inputs). Throws Uncounted for an operator that may have some."""
    with plain_attention(), torch.inference_mode(), Costs() as costs:
        module(*inputs)
    if costs.uncounted:
        raise Uncounted(
            f"no bound: it is not known how many FLOP {', '.join(sorted(costs.uncounted))} are: give them a formula in "
            "FORMULAS of bench/gpu_bounds.py, or a place in FREE if they have no products"
        )
    return costs.costs


def bound(module, inputs, limits):
    """{gflop, ms} of the module on those inputs."""
    costs = counted(module, inputs)
    seconds = sum(max(flops / limits["tflops"] * 1e-12, size / limits["gbs"] * 1e-9) for flops, size in costs)
    return {"gflop": sum(flops for flops, _ in costs) * 1e-9, "ms": seconds * 1e3}
