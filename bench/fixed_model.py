"""A model with its input shapes fixed: the same file is what every engine gets, so that none of them plans for more."""

import numpy as np

import onnx


def fix_shapes(model, feed):
    """Gives the ModelProto's inputs the shapes of `feed` ({input: array}); what the file says of other values' shapes is
    dropped where it has symbols, which may now contradict it. Throws ValueError for an input that the feed lacks."""
    weights = {weight.name for weight in model.graph.initializer}
    for value in model.graph.input:
        if value.name in weights:
            continue
        if value.name not in feed:
            raise ValueError(f"no array for the input {value.name}")
        shape = value.type.tensor_type.shape
        del shape.dim[:]
        for size in np.shape(feed[value.name]):
            shape.dim.add().dim_value = size
    del model.graph.value_info[:]
    for value in model.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.Clear()
    return model


def output_names(path):
    """Names of the outputs of the model in that file, in its order."""
    return [value.name for value in onnx.load(str(path), load_external_data=False).graph.output]


def write_fixed(source, feed, target):
    target.write_bytes(fix_shapes(onnx.load(str(source)), feed).SerializeToString())
