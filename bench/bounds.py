"""How fast each layer could be on this machine: the larger of what its arithmetic and what its memory takes.

Arithmetic is the direct algorithm's at the measured peak of fused multiply-adds, so that Winograd may go below the bound, and
behind it exponentials (of softmax, GELU, sigmoid, …) at the measured rate of the leanest that kernels have: the same units
compute both. A tanh or an erf counts as one exponential, though it takes longer.
Constants come from the level of the cache that would hold all of the model's constants, for they are read once a run;
activations from the level that would hold those of the layer, which the layer before has just written.
"""


def bandwidth(size, limits):
    """GB/s at which `size` bytes that are in use together can be read."""
    if size <= limits["l2_bytes"] * limits["threads"]:
        return limits["l2_gbs"]
    return limits["l3_gbs"] if size <= limits["l3_bytes"] else limits["dram_gbs"]


def bounded(layers, limits):
    """The layers of `camshaft bench --profile --json`, each with bound_ms and lost_ms (0 where its size is not known)."""
    constants = sum(layer.get("constant_bytes", 0) for layer in layers)
    result = []
    for layer in layers:
        activations = layer.get("activation_bytes", 0)
        arithmetic = layer.get("flops", 0) / limits["gflops"] * 1e-6
        arithmetic += layer.get("exponentials", 0) / limits["gexps"] * 1e-6
        memory = layer.get("constant_bytes", 0) / bandwidth(constants, limits) * 1e-6
        memory += activations / bandwidth(activations, limits) * 1e-6
        bound = max(arithmetic, memory) if "flops" in layer else layer["ms"]
        result.append(layer | {"bound_ms": bound, "lost_ms": max(0.0, layer["ms"] - bound)})
    return result


def least_ms(layers):
    """Milliseconds of a run in which no layer takes longer than its bound; those that are below it (Winograd) stay as they are."""
    return sum(min(layer["ms"], layer["bound_ms"]) for layer in layers)


def by_lost_time(layers):
    return sorted(layers, key=lambda layer: -layer["lost_ms"])


def fastest(profiles):
    """Several profiles of one engine as one: each layer with the least of its times."""
    return [layers[0] | {"ms": min(layer["ms"] for layer in layers)} for layers in zip(*profiles)]


def described(layer):
    """ "conv winograd 0.31 ms of 0.20 (node_Conv_7, node_relu)"."""
    nodes = layer["sources"] or [layer["name"]]
    names = ", ".join(nodes[:2]) + (" …" if len(nodes) > 2 else "")
    return f"{layer['op']} {layer['tactic']} {layer['ms']:.3f} ms, bound {layer['bound_ms']:.3f} ({names})"
