"""Attention and rotary embeddings, as TensorRT 10.14 and later have them."""

import numpy

from camshaft.tensorrt._enums import AttentionNormalizationOp, DataType, LayerType
from camshaft.tensorrt._layers._base import Layer
from camshaft.tensorrt._network import ITensor
from camshaft.tensorrt._values import name_of_dtype

_QUERY, _KEY, _VALUE, _MASK, _SCALE = range(5)  # the inputs


class IAttentionBoundaryLayer(Layer):
    """A layer that stands for an attention."""

    attention = property(lambda self: self._attention)


class IAttentionOutputLayer(IAttentionBoundaryLayer):
    """The one that computes it."""

    def __init__(self, network, name, inputs, output, norm_op, causal):
        super().__init__(network, LayerType.ATTENTION_OUTPUT, name, inputs, [output])
        self.norm_op, self.causal, self.decomposable = norm_op, causal, False
        self.normalization_quantize_to_type = DataType.FP8
        self._attention = IAttention(self)

    def _emit(self):
        query, key, value = self._inputs[:3]
        mask, scale = self.get_input(_MASK), self.get_input(_SCALE)
        if self.norm_op == AttentionNormalizationOp.SOFTMAX and scale is None:
            # TensorRT scales nothing: queries come scaled.
            self._write("Attention", [query, key, value, mask], self._result(), is_causal=int(self.causal), scale=1.0)
            return
        key, value = (self._for_all_heads(tensor) for tensor in (key, value))
        scores = self._write("MatMul", [query, self._write("Transpose", [key], perm=[0, 1, 3, 2])])
        weights = self._normalized(self._masked(scores, mask))
        if scale is not None:
            weights = self._rounded(weights, scale)
        self._write("MatMul", [weights, value], self._result())

    def _for_all_heads(self, tensor):
        """Keys and values of fewer heads serve several queries' each."""
        heads, wanted = tensor.shape[1], self._inputs[_QUERY].shape[1]
        if heads == wanted:
            return tensor
        wide = self._write("Tile", [self._write("Unsqueeze", [tensor, [2]]), [1, 1, wanted // heads, 1, 1]])
        return self._write("Reshape", [wide, [0, wanted, -1, tensor.shape[3]]])

    def _masked(self, scores, mask):
        lowest = -numpy.inf if self.norm_op == AttentionNormalizationOp.SOFTMAX else 0.0
        kind = name_of_dtype(self._inputs[_QUERY].dtype)
        out = self._write("Cast", [self._constant(numpy.array(lowest, numpy.float32))], to=kind)
        if self.causal:
            sizes = self._write("Slice", [self._write("Shape", [scores]), [2], [4]])
            ones = self._write("ConstantOfShape", [sizes], value=numpy.ones(1, numpy.float32))
            allowed = self._write("Cast", [self._write("Trilu", [ones], upper=0)], to="bool")
            scores = self._write("Where", [allowed, scores, out])
        if mask is None:
            return scores
        if mask.dtype == DataType.BOOL:
            return self._write("Where", [mask, scores, out])
        return self._write("Add", [scores, mask])

    def _normalized(self, scores):
        if self.norm_op == AttentionNormalizationOp.NONE:
            return scores
        return self._write("Softmax", [scores], axis=-1)

    def _rounded(self, weights, scale):
        """To steps of the scale, and back."""
        kind = name_of_dtype(self.normalization_quantize_to_type)
        steps = self._write("QuantizeLinear", [weights, scale], output_dtype=kind)
        return self._write("DequantizeLinear", [steps, scale])


def _of_layer(name):
    return property(lambda self: getattr(self._layer, name), lambda self, value: setattr(self._layer, name, value))


def _input(index):
    return property(lambda self: self.get_input(index), lambda self, tensor: self.set_input(index, tensor))


class IAttention:
    """Attention of queries, keys and values, each [batch, heads, length, size]."""

    name, metadata, norm_op, causal = (_of_layer(word) for word in ("name", "metadata", "norm_op", "causal"))
    decomposable = _of_layer("decomposable")
    normalization_quantize_to_type = _of_layer("normalization_quantize_to_type")
    mask, normalization_quantize_scale = _input(_MASK), _input(_SCALE)
    num_inputs = property(lambda self: self._layer.num_inputs)
    num_outputs = property(lambda self: self._layer.num_outputs)
    num_ranks = 1

    def __init__(self, layer):
        self._layer = layer

    def get_input(self, index):
        return self._layer.get_input(index)

    def get_output(self, index):
        return self._layer.get_output(index)

    def set_input(self, index, tensor):
        """Replaces one: query, key, value, mask, and the scale to which weights are rounded."""
        if not isinstance(tensor, ITensor):
            raise TypeError(f"an input of an attention is an ITensor, not {tensor!r}")
        self._layer.set_input(index, tensor)
        return True


class IRotaryEmbeddingLayer(Layer):
    """Turns pairs of elements by angles of their positions; input 3, where it is set, has the positions."""

    def __init__(self, network, name, inputs, output, interleaved, rotary_embedding_dim):
        super().__init__(network, LayerType.ROTARY_EMBEDDING, name, inputs, [output])
        self.interleaved, self.rotary_embedding_dim = interleaved, rotary_embedding_dim

    def _emit(self):
        x, cosines, sines = self._inputs[:3]
        self._write(
            "RotaryEmbedding",
            [x, cosines, sines, self.get_input(3)],
            self._result(),
            interleaved=int(self.interleaved),
            rotary_embedding_dim=self.rotary_embedding_dim,
        )
