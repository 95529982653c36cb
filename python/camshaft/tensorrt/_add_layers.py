"""The network's add_ functions."""

import itertools

from camshaft.tensorrt import _layers
from camshaft.tensorrt._assertions import IAssertionLayer, outputs_of
from camshaft.tensorrt._compiled_plugins import CompiledPluginV2
from camshaft.tensorrt._conditionals import IIfConditional
from camshaft.tensorrt._enums import (
    AttentionNormalizationOp,
    CumulativeOperation,
    DataType,
    GatherMode,
    LayerType,
    MatrixOperation,
    PluginCapabilityType,
    ScaleMode,
)
from camshaft.tensorrt._layers import axes_of
from camshaft.tensorrt._loops import ILoop
from camshaft.tensorrt._network import INetworkDefinition, ITensor
from camshaft.tensorrt._own_plugins import OwnPlugin
from camshaft.tensorrt._plugin_layers import IPluginV2Layer, IPluginV3Layer
from camshaft.tensorrt._plugin_types import IPluginV2DynamicExt, IPluginV3
from camshaft.tensorrt._quick_plugins import request_of
from camshaft.tensorrt._values import Dims


def _missing(what, way_out):
    raise NotImplementedError(f"{what} is not there: {way_out}")


class Network(INetworkDefinition):
    """A network that layers can be added to."""

    def __init__(self, builder, flags, logger):
        super().__init__(builder, flags, logger)
        self._of_kind = {}
        self._constructs = []  # loops and conditionals

    def _add(self, kind, type, *arguments, outputs=1, **settings):
        """A layer of class `kind`; its name is free, and its results have tensors."""
        counter = self._of_kind.setdefault(type, itertools.count())
        name = f"(Unnamed Layer* {len(self._layers)}) [{type.name.replace('_', ' ').title()}]_{next(counter)}"
        results = [self._new_tensor(f"{name}_output" if outputs == 1 else f"{name}_output_{k}") for k in range(outputs)]
        try:
            layer = kind(self, name, *arguments, results[0] if outputs == 1 else results, **settings)
            self._check_operands(layer)
        except Exception:
            for tensor in results:
                del self._tensors[tensor.name]
            raise
        self._layers.append(layer)
        self._source = None
        if self._constructs:  # which the layer may be a part of
            self._changed()
        return layer

    def _check_operands(self, layer):
        for operand in layer._inputs:
            if not isinstance(operand, ITensor):
                raise TypeError(f"a layer of {layer.type} takes an ITensor, not {operand!r}")
            if operand._network is not self:
                raise ValueError(f"tensor '{operand.name}' is of another network")

    def _plain(self, kind, inputs, **properties):
        """A layer of one ONNX node."""
        return self._add(
            lambda network, name, output: kind(network, name, list(inputs), output, **properties), kind._TYPE
        )

    # ---- Convolutions and poolings ----

    def add_convolution_nd(self, input, num_output_maps, kernel_shape, kernel, bias=None):
        return self._convolution(_layers.IConvolutionLayer, LayerType.CONVOLUTION, input, num_output_maps, kernel_shape, kernel, bias)  # fmt: skip

    add_convolution = add_convolution_nd

    def add_deconvolution_nd(self, input, num_output_maps, kernel_shape, kernel, bias=None):
        return self._convolution(_layers.IDeconvolutionLayer, LayerType.DECONVOLUTION, input, num_output_maps, kernel_shape, kernel, bias)  # fmt: skip

    add_deconvolution = add_deconvolution_nd

    def _convolution(self, kind, type, input, maps, window, kernel, bias):
        def made(network, name, output):
            return kind(network, name, input, output, maps, window, kernel, bias, type)

        return self._add(made, type)

    def add_fully_connected(self, input, num_outputs, kernel, bias=None):
        return self._add(
            lambda network, name, output: _layers.IFullyConnectedLayer(
                network, name, input, output, num_outputs, kernel, bias
            ),
            LayerType.FULLY_CONNECTED,
        )

    def add_pooling_nd(self, input, type, window_size):
        return self._add(
            lambda network, name, output: _layers.IPoolingLayer(network, name, input, output, type, window_size),
            LayerType.POOLING,
        )

    add_pooling = add_pooling_nd

    # ---- Element by element ----

    def add_activation(self, input, type):
        return self._add(
            lambda network, name, output: _layers.IActivationLayer(network, name, input, output, type),
            LayerType.ACTIVATION,
        )

    def add_parametric_relu(self, input, slopes):
        return self._plain(_layers.IParametricReLULayer, [input, slopes])

    def add_elementwise(self, input1, input2, op):
        return self._add(
            lambda network, name, output: _layers.IElementWiseLayer(network, name, [input1, input2], output, op),
            LayerType.ELEMENTWISE,
        )

    def add_unary(self, input, op):
        return self._add(
            lambda network, name, output: _layers.IUnaryLayer(network, name, input, output, op), LayerType.UNARY
        )

    def add_scale(self, input, mode, shift=None, scale=None, power=None):
        return self.add_scale_nd(input, mode, shift, scale, power, max(0, len(input.shape) - 3))

    def add_scale_nd(self, input, mode, shift=None, scale=None, power=None, channel_axis=None):
        if channel_axis is None:
            raise TypeError("add_scale_nd() needs channel_axis")
        return self._add(
            lambda network, name, output: _layers.IScaleLayer(
                network, name, input, output, ScaleMode(mode), shift, scale, power, channel_axis
            ),
            LayerType.SCALE,
        )

    def add_select(self, condition, then_input, else_input):
        return self._plain(_layers.ISelectLayer, [condition, then_input, else_input])

    def add_identity(self, input):
        return self._plain(_layers.IIdentityLayer, [input])

    def add_cast(self, input, to_type):
        return self._add(
            lambda network, name, output: _layers.ICastLayer(network, name, input, output, DataType(to_type)),
            LayerType.CAST,
        )

    # ---- Norms and reductions ----

    def add_lrn(self, input, window, alpha, beta, k):
        return self._add(
            lambda network, name, output: _layers.ILRNLayer(network, name, input, output, window, alpha, beta, k),
            LayerType.LRN,
        )

    def add_normalization(self, input, scale, bias, axesMask):
        return self._add(
            lambda network, name, output: _layers.INormalizationLayer(
                network, name, [input, scale, bias], output, axesMask
            ),
            LayerType.NORMALIZATION,
        )

    def add_softmax(self, input):
        return self._add(
            lambda network, name, output: _layers.ISoftMaxLayer(network, name, input, output), LayerType.SOFTMAX
        )

    def add_ragged_softmax(self, input, bounds):
        return self._add(
            lambda network, name, output: _layers.IRaggedSoftMaxLayer(network, name, [input, bounds], output),
            LayerType.RAGGED_SOFTMAX,
        )

    def add_reduce(self, input, op, axes, keep_dims):
        return self._add(
            lambda network, name, output: _layers.IReduceLayer(network, name, input, output, op, axes, keep_dims),
            LayerType.REDUCE,
        )

    def add_topk(self, input, op, k, axes, indices_type=DataType.INT32):
        if len(axes_of(axes)) != 1:
            self._fail(f"top-k has one axis, not {len(axes_of(axes))}")
            return None
        return self._add(
            lambda network, name, outputs: _layers.ITopKLayer(
                network, name, input, outputs, op, k, axes, DataType(indices_type)
            ),
            LayerType.TOPK,
            outputs=2,
        )

    def add_cumulative(self, input, axis, op, exclusive, reverse):
        return self._plain(
            _layers.ICumulativeLayer,
            [input, axis],
            op=CumulativeOperation(op),
            exclusive=bool(exclusive),
            reverse=bool(reverse),
        )

    def add_normalization_v2(self, input, scale, bias, axesMask):
        layer = self.add_normalization(input, scale, bias, axesMask)
        layer.is_v2 = True
        return layer

    # ---- Attention ----

    def add_attention(self, query, key, value, norm_op, causal):
        """An IAttention, of queries that are scaled already."""
        return self._add(
            lambda network, name, output: _layers.IAttentionOutputLayer(
                network, name, [query, key, value], output, AttentionNormalizationOp(norm_op), bool(causal)
            ),
            LayerType.ATTENTION_OUTPUT,
        ).attention

    def add_rotary_embedding(self, input, cos_cache, sin_cache, interleaved, rotary_embedding_dim):
        return self._add(
            lambda network, name, output: _layers.IRotaryEmbeddingLayer(
                network, name, [input, cos_cache, sin_cache], output, bool(interleaved), int(rotary_embedding_dim)
            ),
            LayerType.ROTARY_EMBEDDING,
        )

    # ---- Products ----

    def add_matrix_multiply(self, input0, op0, input1, op1):
        # TensorRT 8 took booleans for the transposes.
        op0, op1 = MatrixOperation(int(op0)), MatrixOperation(int(op1))
        return self._add(
            lambda network, name, output: _layers.IMatrixMultiplyLayer(
                network, name, [input0, input1], output, op0, op1
            ),
            LayerType.MATRIX_MULTIPLY,
        )

    def add_einsum(self, inputs, equation):
        return self._plain(_layers.IEinsumLayer, inputs, equation=equation)

    # ---- Shapes ----

    def add_shuffle(self, input):
        return self._add(
            lambda network, name, output: _layers.IShuffleLayer(network, name, input, output), LayerType.SHUFFLE
        )

    def add_squeeze(self, input, axes):
        return self._plain(_layers.ISqueezeLayer, [input, axes])

    def add_unsqueeze(self, input, axes):
        return self._plain(_layers.IUnsqueezeLayer, [input, axes])

    def add_concatenation(self, inputs):
        return self._add(
            lambda network, name, output: _layers.IConcatenationLayer(network, name, list(inputs), output),
            LayerType.CONCATENATION,
        )

    def add_slice(self, input, start, shape, stride):
        return self._add(
            lambda network, name, output: _layers.ISliceLayer(network, name, input, output, start, shape, stride),
            LayerType.SLICE,
        )

    def add_padding_nd(self, input, pre_padding, post_padding):
        return self._add(
            lambda network, name, output: _layers.IPaddingLayer(
                network, name, input, output, pre_padding, post_padding
            ),
            LayerType.PADDING,
        )

    add_padding = add_padding_nd

    def add_resize(self, input):
        return self._add(
            lambda network, name, output: _layers.IResizeLayer(network, name, input, output), LayerType.RESIZE
        )

    def add_shape(self, input):
        return self._plain(_layers.IShapeLayer, [input])

    def add_gather(self, input, indices, axis):
        return self._gather(input, indices, GatherMode.DEFAULT, axis)

    def add_gather_v2(self, input, indices, mode):
        return self._gather(input, indices, mode, 0)

    def _gather(self, input, indices, mode, axis):
        return self._add(
            lambda network, name, output: _layers.IGatherLayer(network, name, [input, indices], output, mode, axis),
            LayerType.GATHER,
        )

    def add_scatter(self, data, indices, updates, mode):
        return self._add(
            lambda network, name, output: _layers.IScatterLayer(network, name, [data, indices, updates], output, mode),
            LayerType.SCATTER,
        )

    def add_one_hot(self, indices, values, depth, axis):
        return self._plain(_layers.IOneHotLayer, [indices, values, depth], axis=axis)

    def add_non_zero(self, input, indices_type=DataType.INT32):
        return self._plain(_layers.INonZeroLayer, [input], indices_type=DataType(indices_type))

    def add_reverse_sequence(self, input, sequence_lens):
        return self._plain(_layers.IReverseSequenceLayer, [input, sequence_lens], batch_axis=1, sequence_axis=0)

    # ---- Constants, fills, pictures ----

    def add_constant(self, shape, weights):
        return self._add(
            lambda network, name, output: _layers.IConstantLayer(network, name, output, shape, weights),
            LayerType.CONSTANT,
        )

    def add_fill(self, shape, op, output_type=DataType.FLOAT):
        return self._add(
            lambda network, name, output: _layers.IFillLayer(
                network, name, output, Dims(shape), op, DataType(output_type)
            ),
            LayerType.FILL,
        )

    def add_grid_sample(self, input, grid):
        return self._add(
            lambda network, name, output: _layers.IGridSampleLayer(network, name, [input, grid], output),
            LayerType.GRID_SAMPLE,
        )

    def add_nms(self, boxes, scores, max_output_boxes_per_class, indices_type=DataType.INT32):
        return self._add(
            lambda network, name, outputs: _layers.INMSLayer(
                network, name, [boxes, scores, max_output_boxes_per_class], outputs, DataType(indices_type)
            ),
            LayerType.NMS,
            outputs=2,
        )

    # ---- Quantisation ----

    def add_quantize(self, input, scale, output_type=DataType.INT8):
        return self._add(
            lambda network, name, output: _layers.IQuantizeLayer(
                network, name, [input, scale], output, DataType(output_type)
            ),
            LayerType.QUANTIZE,
        )

    def add_dequantize(self, input, scale, output_type=DataType.FLOAT):
        return self._add(
            lambda network, name, output: _layers.IDequantizeLayer(
                network, name, [input, scale], output, DataType(output_type)
            ),
            LayerType.DEQUANTIZE,
        )

    def add_dynamic_quantize(self, input, axis, block_size, output_type, scale_type):
        return self._add(
            lambda network, name, outputs: _layers.IDynamicQuantizeLayer(
                network, name, input, outputs, axis, block_size, DataType(output_type), DataType(scale_type)
            ),
            LayerType.DYNAMIC_QUANTIZE,
            outputs=2,
        )

    def add_dynamic_quantize_v2(self, input, block_shape, output_type, scale_type):
        """The same with a block's size along each axis."""
        layer = self.add_dynamic_quantize(input, -1, 1, output_type, scale_type)
        layer.block_shape = block_shape
        return layer

    # ---- Plugins ----

    def add_plugin_v2(self, inputs, plugin):
        """Of an IPluginV2DynamicExt, or of what the registry's creators make, of TensorRT's own plugins and in C++."""
        if not isinstance(plugin, (IPluginV2DynamicExt, OwnPlugin, CompiledPluginV2)):
            raise TypeError(f"add_plugin_v2() takes an IPluginV2DynamicExt, not {plugin!r}")
        key = (plugin.plugin_type, plugin.plugin_version, plugin.plugin_namespace)
        return self._plugin_layer(IPluginV2Layer, inputs, [], plugin, key, plugin.num_outputs)

    def add_plugin_v3(self, inputs, shape_inputs, plugin):
        """Of an IPluginV3. Shapes that it takes must be known before running."""
        if not isinstance(plugin, IPluginV3):
            raise TypeError(f"add_plugin_v3() takes an IPluginV3, not {plugin!r}")
        core, build = (plugin.get_capability_interface(PluginCapabilityType[part]) for part in ("CORE", "BUILD"))
        key = (core.plugin_name, core.plugin_version, core.plugin_namespace)
        return self._plugin_layer(IPluginV3Layer, inputs, shape_inputs or [], plugin, key, build.num_outputs)

    def add_plugin(self, func=None, aot=None, *, tuple=None):
        """Of what calling a plugin of tensorrt.plugin.op gives, or of (inputs, shape inputs, plugin)."""
        given = tuple if func is None else func
        inputs, shape_inputs, plugin = given(request_of(self, aot)) if callable(given) else given
        return self.add_plugin_v3(inputs, shape_inputs, plugin)

    def _plugin_layer(self, kind, inputs, shape_inputs, plugin, key, outputs):
        return self._add(
            lambda network, name, results: kind(
                network, name, [*inputs, *shape_inputs], results, plugin, key, len(shape_inputs)
            ),
            kind._TYPE,
            outputs=outputs,
        )

    # ---- Control flow ----

    def add_loop(self):
        return self._construct(ILoop, "Loop")

    def add_if_conditional(self):
        return self._construct(IIfConditional, "Conditional")

    def _construct(self, kind, word):
        self._constructs.append(kind(self, f"(Unnamed {word}* {len(self._constructs)})"))
        return self._constructs[-1]

    # ---- What there is nothing for ----

    def add_moe(self, hidden_states, selected_experts_for_tokens, scores_for_selected_experts):
        _missing("add_moe()", "write the experts as products of a gathered weight, or give a plugin")

    def add_dist_collective(self, *arguments):
        _missing("add_dist_collective()", "an engine runs on one device")

    def add_kv_cache_update(self, cache, update, write_indices, cache_mode):
        _missing("add_kv_cache_update()", "give the cache back as an output, by add_scatter() or add_concatenation()")

    def add_rnn_v2(self, *arguments):
        _missing("add_rnn_v2()", "add_loop(), or ONNX's LSTM, GRU and RNN, are recurrent layers here")

    # ---- Assertions ----

    def add_assertion(self, condition, message):
        """Runs fail, with this message, where an element of the condition is false; a build does where it always is."""
        return self._add(
            lambda network, name, outputs: IAssertionLayer(network, name, condition, outputs, message),
            LayerType.ASSERTION,
            outputs=0,
        )

    def _conditions(self):
        return outputs_of(self)
