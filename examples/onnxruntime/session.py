"""Runs a model of ONNX Runtime's on Camshaft, and says which nodes Camshaft has.

usage: session.py MODEL [NAME=VALUE...]      options of the provider, as docs/onnxruntime.md lists them
"""

import sys

import camshaft.ort
import numpy as np
import onnxruntime


def main():
    model, *words = sys.argv[1:]
    options = dict(word.split("=", 1) for word in words)
    settings = onnxruntime.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")

    camshaft.ort.register()
    session = onnxruntime.InferenceSession(
        model, settings, providers=[("CamshaftExecutionProvider", options), "CPUExecutionProvider"]
    )

    for part in session.get_provider_graph_assignment_info():
        print(f"{part.ep_name}: {len(part.get_nodes())} nodes")
    x = session.get_inputs()[0]
    sizes = [size if isinstance(size, int) else 48 for size in x.shape]  # whatever fits where the model takes any
    for result in session.run(None, {x.name: np.ones(sizes, np.float32)}):
        print(result.shape, result.dtype)


if __name__ == "__main__":
    main()
