"""The layers of TensorRT's network API, each as ONNX nodes."""

# ruff: noqa: F401
from camshaft.tensorrt._layers._arithmetic import (
    IActivationLayer,
    ICastLayer,
    IElementWiseLayer,
    IMatrixMultiplyLayer,
    INormalizationLayer,
    IRaggedSoftMaxLayer,
    IReduceLayer,
    IScaleLayer,
    ISoftMaxLayer,
    ITopKLayer,
    IUnaryLayer,
)
from camshaft.tensorrt._layers._attention import (
    IAttention,
    IAttentionBoundaryLayer,
    IAttentionOutputLayer,
    IRotaryEmbeddingLayer,
)
from camshaft.tensorrt._layers._base import Layer, axes_of
from camshaft.tensorrt._layers._moves import (
    IConcatenationLayer,
    IConstantLayer,
    IFillLayer,
    IGatherLayer,
    IGridSampleLayer,
    INMSLayer,
    IScatterLayer,
    IShuffleLayer,
)
from camshaft.tensorrt._layers._plain import (
    ICumulativeLayer,
    IEinsumLayer,
    IIdentityLayer,
    INonZeroLayer,
    IOneHotLayer,
    IParametricReLULayer,
    IReverseSequenceLayer,
    ISelectLayer,
    IShapeLayer,
    ISqueezeLayer,
    IUnsqueezeLayer,
)
from camshaft.tensorrt._layers._quantize import IDequantizeLayer, IDynamicQuantizeLayer, IQuantizeLayer
from camshaft.tensorrt._layers._slice import ISliceLayer
from camshaft.tensorrt._layers._windows import (
    IConvolutionLayer,
    IDeconvolutionLayer,
    IFullyConnectedLayer,
    ILRNLayer,
    IPaddingLayer,
    IPoolingLayer,
    IResizeLayer,
)
