"""Which kind of TensorRT's layers an operator of ONNX is."""

from camshaft.tensorrt._enums import LayerType

#: TensorRT's kinds of layers for ONNX's operators; others are listed as plugins are.
LAYER_TYPES = {
    **dict.fromkeys(["Conv", "ConvInteger", "QLinearConv"], LayerType.CONVOLUTION),
    "ConvTranspose": LayerType.DECONVOLUTION,
    **dict.fromkeys(["MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"], LayerType.MATRIX_MULTIPLY),
    **dict.fromkeys(
        "Relu Sigmoid Tanh LeakyRelu Elu Selu Softsign Softplus Clip HardSigmoid ThresholdedRelu Gelu HardSwish Mish "
        "Celu Swish".split(),
        LayerType.ACTIVATION,
    ),
    "PRelu": LayerType.PARAMETRIC_RELU,
    **dict.fromkeys(
        "MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool GlobalLpPool".split(), LayerType.POOLING
    ),
    "LRN": LayerType.LRN,
    **dict.fromkeys(["Softmax", "LogSoftmax"], LayerType.SOFTMAX),
    "Concat": LayerType.CONCATENATION,
    **dict.fromkeys(
        "Add Sub Mul Div Pow Min Max And Or Xor Equal Greater Less Mod GreaterOrEqual LessOrEqual Sum Mean".split(),
        LayerType.ELEMENTWISE,
    ),
    **dict.fromkeys(
        "Exp Log Sqrt Reciprocal Abs Neg Sin Cos Tan Sinh Cosh Asin Acos Atan Asinh Acosh Atanh Ceil Floor Erf Not Sign "
        "Round IsInf IsNaN".split(),
        LayerType.UNARY,
    ),
    "Pad": LayerType.PADDING,
    **dict.fromkeys(["Reshape", "Transpose", "Flatten", "DepthToSpace", "SpaceToDepth"], LayerType.SHUFFLE),
    **dict.fromkeys(
        "ReduceSum ReduceProd ReduceMax ReduceMin ReduceMean ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum "
        "ReduceLogSumExp".split(),
        LayerType.REDUCE,
    ),
    **dict.fromkeys(["TopK", "ArgMax", "ArgMin"], LayerType.TOPK),
    **dict.fromkeys(["Gather", "GatherElements", "GatherND"], LayerType.GATHER),
    **dict.fromkeys(["ScatterElements", "ScatterND", "Scatter"], LayerType.SCATTER),
    **dict.fromkeys(["Constant", "ConstantOfShape"], LayerType.CONSTANT),
    "Identity": LayerType.IDENTITY,
    "Cast": LayerType.CAST,
    **dict.fromkeys(["Slice", "Split", "Expand", "Tile"], LayerType.SLICE),
    **dict.fromkeys(["Shape", "Size"], LayerType.SHAPE),
    **dict.fromkeys(["Resize", "Upsample"], LayerType.RESIZE),
    "Where": LayerType.SELECT,
    **dict.fromkeys(["Range", "RandomUniform", "RandomNormal"], LayerType.FILL),
    "QuantizeLinear": LayerType.QUANTIZE,
    "DequantizeLinear": LayerType.DEQUANTIZE,
    "DynamicQuantizeLinear": LayerType.DYNAMIC_QUANTIZE,
    "If": LayerType.CONDITION,
    "Loop": LayerType.TRIP_LIMIT,
    "Einsum": LayerType.EINSUM,
    "OneHot": LayerType.ONE_HOT,
    "NonZero": LayerType.NON_ZERO,
    "GridSample": LayerType.GRID_SAMPLE,
    "NonMaxSuppression": LayerType.NMS,
    "ReverseSequence": LayerType.REVERSE_SEQUENCE,
    **dict.fromkeys(
        "BatchNormalization InstanceNormalization LayerNormalization GroupNormalization RMSNormalization".split(),
        LayerType.NORMALIZATION,
    ),
    "Squeeze": LayerType.SQUEEZE,
    "Unsqueeze": LayerType.UNSQUEEZE,
    "CumSum": LayerType.CUMULATIVE,
}
