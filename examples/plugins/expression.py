"""expression.py MODEL.onnx: builds a model with nodes example::Swish, which are an expression, and runs it."""

import sys

import camshaft
import numpy as np

camshaft.load_plugin("example::Swish(x, beta = 1) = x / (1 + exp(-beta * x))")

engine = camshaft.build(sys.argv[1])
print(engine(*[np.ones([max(d, 1) for d in i.shape], np.float32) for i in engine.inputs]))
