# ruff: noqa: F401, F403
"""TensorRT's Python interface over Camshaft: programs for TensorRT 8 to 10 run on the CPU and on GPUs.

    import camshaft.tensorrt as trt          # instead of: import tensorrt as trt

or, for programs that are not to be touched,

    python -m camshaft.tensorrt program.py arguments…

which, as install() does, puts this module in the place of `tensorrt`, and stand-ins in the places of CUDA Python and
PyCUDA where these are not installed. Where there is no GPU, engines run on the CPU, and device memory is the host's.
"""

import sys

from camshaft.tensorrt import plugin  # noqa: E402, after what it is made of
from camshaft.tensorrt._algorithms import (
    IAlgorithm,
    IAlgorithmContext,
    IAlgorithmIOInfo,
    IAlgorithmSelector,
    IAlgorithmVariant,
)
from camshaft.tensorrt._assertions import IAssertionLayer
from camshaft.tensorrt._builder import Builder, IProgressMonitor
from camshaft.tensorrt._calibrators import (
    IInt8Calibrator,
    IInt8EntropyCalibrator,
    IInt8EntropyCalibrator2,
    IInt8LegacyCalibrator,
    IInt8MinMaxCalibrator,
)
from camshaft.tensorrt._conditionals import (
    IConditionLayer,
    IIfConditional,
    IIfConditionalBoundaryLayer,
    IIfConditionalInputLayer,
    IIfConditionalOutputLayer,
)
from camshaft.tensorrt._config import IBuilderConfig, IOptimizationProfile
from camshaft.tensorrt._context import IDebugListener, IExecutionContext, IOutputAllocator, IProfiler, Profiler
from camshaft.tensorrt._enums import *
from camshaft.tensorrt._enums import DataType
from camshaft.tensorrt._install import install
from camshaft.tensorrt._layers import (
    IActivationLayer,
    IAttention,
    IAttentionBoundaryLayer,
    IAttentionOutputLayer,
    ICastLayer,
    IConcatenationLayer,
    IConstantLayer,
    IConvolutionLayer,
    ICumulativeLayer,
    IDeconvolutionLayer,
    IDequantizeLayer,
    IDynamicQuantizeLayer,
    IEinsumLayer,
    IElementWiseLayer,
    IFillLayer,
    IFullyConnectedLayer,
    IGatherLayer,
    IGridSampleLayer,
    IIdentityLayer,
    ILRNLayer,
    IMatrixMultiplyLayer,
    INMSLayer,
    INonZeroLayer,
    INormalizationLayer,
    IOneHotLayer,
    IPaddingLayer,
    IParametricReLULayer,
    IPoolingLayer,
    IQuantizeLayer,
    IRaggedSoftMaxLayer,
    IReduceLayer,
    IResizeLayer,
    IReverseSequenceLayer,
    IRotaryEmbeddingLayer,
    IScaleLayer,
    IScatterLayer,
    ISelectLayer,
    IShapeLayer,
    IShuffleLayer,
    ISliceLayer,
    ISoftMaxLayer,
    ISqueezeLayer,
    ITopKLayer,
    IUnaryLayer,
    IUnsqueezeLayer,
)
from camshaft.tensorrt._log import IErrorRecorder, ILogger, Logger, Severity
from camshaft.tensorrt._loops import (
    IIteratorLayer,
    ILoop,
    ILoopBoundaryLayer,
    ILoopOutputLayer,
    IRecurrenceLayer,
    ITripLimitLayer,
)
from camshaft.tensorrt._missing import *
from camshaft.tensorrt._missing import _missing_name
from camshaft.tensorrt._network import ILayer, INetworkDefinition, ITensor
from camshaft.tensorrt._parser import OnnxParser, ParserError, get_nv_onnx_parser_version
from camshaft.tensorrt._plugin_layers import IPluginV2Layer, IPluginV3Layer
from camshaft.tensorrt._plugin_registry import (
    IPluginRegistry,
    get_builder_plugin_registry,
    get_plugin_registry,
    init_libnvinfer_plugins,
)
from camshaft.tensorrt._plugin_types import (
    DimsExprs,
    DynamicPluginTensorDesc,
    IDimensionExpr,
    IExprBuilder,
    InterfaceInfo,
    IPluginCapability,
    IPluginCreator,
    IPluginCreatorInterface,
    IPluginCreatorV3One,
    IPluginCreatorV3Quick,
    IPluginResource,
    IPluginResourceContext,
    IPluginV2,
    IPluginV2DynamicExt,
    IPluginV2DynamicExtBase,
    IPluginV2Ext,
    IPluginV3,
    IPluginV3OneBuild,
    IPluginV3OneBuildV2,
    IPluginV3OneCore,
    IPluginV3OneRuntime,
    IPluginV3QuickBuild,
    IPluginV3QuickCore,
    IPluginV3QuickRuntime,
    IVersionedInterface,
    PluginField,
    PluginFieldCollection,
    PluginFieldCollection_,
    PluginTensorDesc,
)
from camshaft.tensorrt._quick_kernels import KernelLaunchParams
from camshaft.tensorrt._refitter import OnnxParserRefitter, Refitter
from camshaft.tensorrt._runtime import (
    EngineInspector,
    ICudaEngine,
    IRuntimeConfig,
    ISerializationConfig,
    IStreamReader,
    IStreamReaderV2,
    IStreamWriter,
    Runtime,
)
from camshaft.tensorrt._timing_cache import ITimingCache, TimingCacheKey, TimingCacheValue
from camshaft.tensorrt._values import (
    Dims,
    Dims2,
    Dims3,
    Dims4,
    DimsHW,
    IHostMemory,
    Permutation,
    Weights,
    nptype,
    volume,
)

#: Programs name the module inside of TensorRT's package, too.
tensorrt = sys.modules[__name__]

#: The version of TensorRT whose interface this is.
__version__ = "10.13.0"

float32, float16, bfloat16 = DataType.FLOAT, DataType.HALF, DataType.BF16
int8, int32, int64, uint8, bool = DataType.INT8, DataType.INT32, DataType.INT64, DataType.UINT8, DataType.BOOL
fp8, int4, fp4, e8m0 = DataType.FP8, DataType.INT4, DataType.FP4, DataType.E8M0


def __getattr__(name):
    raise _missing_name(name)
