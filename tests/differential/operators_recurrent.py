"""How to use recurrent layers. See table.py."""

import numpy as np
from graph_builder import Rejected
from table import operator

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@operator("LSTM", "GRU", "RNN")
def recurrent(b, op):
    x = b.value(("f32",), ranks=(3,), where=lambda v: isinstance(v.dims[2], int) and not v.is_empty()
                and v.within(-20, 20) and None not in v.dims)  # fmt: skip
    direction = b.pick((None, "forward", "reverse", "bidirectional"))
    directions = 2 if direction == "bidirectional" else 1
    hidden, gates = b.pick((1, 2, 3, 5, 8)), GATES[op]
    inputs = [
        x,
        b.fresh("f32", [directions, gates * hidden, x.dims[2]], -1, 1, constant=0.95),
        b.fresh("f32", [directions, gates * hidden, hidden], -1, 1, constant=0.95),
    ]
    batch = x.dims[1]
    states = [directions, batch, hidden]
    inputs.append(b.fresh("f32", [directions, 2 * gates * hidden], -1, 1, constant=0.95) if b.chance(0.6) else None)
    inputs.append(b.fresh("i32", [batch], 1, x.min_size(0)) if b.chance(0.3) else None)
    inputs.append(b.fresh("f32", states, -1, 1) if b.chance(0.4) else None)
    if op == "LSTM":
        inputs.append(b.fresh("f32", states, -1, 1) if b.chance(0.4) else None)
        inputs.append(b.fresh("f32", [directions, 3 * hidden], -1, 1, constant=1) if b.chance(0.2) else None)
    while inputs[-1] is None:
        inputs.pop()
    used = [b.chance(0.8) for _ in range(3 if op == "LSTM" else 2)]
    if not any(used):
        raise Rejected("no outputs")
    extra = {"linear_before_reset": b.pick((None, 0, 1))} if op == "GRU" else {}
    if b.chance(0.2):
        kinds = {"LSTM": ["Sigmoid", "Tanh", "Relu"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Relu"]}[op]
        extra["activations"] = kinds * directions
    if b.chance(0.1) and op != "LSTM":  # known_differences.md
        extra["clip"] = 0.75
    b.emit(op, inputs, outputs=used, hidden_size=hidden, direction=direction, **extra)
    results = [a for v in b.values[-sum(used) :] for a in v.arrays]
    if any(a.size > 1e5 for a in results):
        raise Rejected("too large")
    if any(a.size and 0 < np.abs(a).max() < 1e-2 for a in results):  # known_differences.md: gates near 0
        raise Rejected("too small")
