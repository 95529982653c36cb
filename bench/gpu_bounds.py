"""How fast a model could be on this GPU: for each product, convolution and attention the larger of its arithmetic at the
measured peak and its bytes, each read or written once, at the measured bandwidth. What lies between them is not counted."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry


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


class Costs(TorchDispatchMode):
    """[(FLOP, bytes)] of the contractions that PyTorch is asked for."""

    def __init__(self):
        super().__init__()
        self.costs = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        flops = flop_registry.get(function.overloadpacket)
        if flops is None:  # linear, conv2d, …: what they are made of
            with self:
                parts = function.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        result = function(*args, **kwargs)
        if flops is not None:
            first = result[0] if isinstance(result, (tuple, list)) else result
            tensors = [leaf for leaf in tree_leaves((args, kwargs, first)) if isinstance(leaf, torch.Tensor)]
            size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
            self.costs.append((flops(*args, **kwargs, out_val=result), size))
        return result


def bound(module, inputs, limits):
    """{gflop, ms} of the module on those inputs."""
    with Costs() as costs:
        module(*inputs)
    seconds = sum(max(flops / limits["tflops"] * 1e-12, size / limits["gbs"] * 1e-9) for flops, size in costs.costs)
    return {"gflop": sum(flops for flops, _ in costs.costs) * 1e-9, "ms": seconds * 1e3}
