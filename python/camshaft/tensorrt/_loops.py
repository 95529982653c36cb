"""Loops and conditionals of TensorRT's network API."""


class ILoop:
    """A loop: not there yet."""

    def __init__(self, network):
        raise NotImplementedError(
            "add_loop() is not there yet: a Loop or Scan in an ONNX model is read by OnnxParser, or camshaft.build()"
        )


class IIfConditional:
    """A conditional: not there yet."""

    def __init__(self, network):
        raise NotImplementedError(
            "add_if_conditional() is not there yet: an If in an ONNX model is read by OnnxParser; add_select() chooses "
            "between results that are both computed"
        )
