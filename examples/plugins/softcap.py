"""softcap.py MODEL.onnx: builds a model with nodes example::Softcap, which a Python function computes, and runs it."""

import sys

import camshaft
import numpy as np


@camshaft.plugin("example::Softcap", shape=lambda x, limit: x.shape)
def softcap(x: np.float32, limit=30.0):
    return limit * np.tanh(x / limit)


engine = camshaft.build(sys.argv[1])
print(engine(*[np.zeros([max(d, 1) for d in i.shape], np.float32) for i in engine.inputs]))
