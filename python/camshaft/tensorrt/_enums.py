"""TensorRT's enumerations, with the numbers of TensorRT 10."""

import enum as _enum


class _Enum(_enum.IntEnum):
    """Prints as TensorRT's do ("DataType.FLOAT"), whatever Python makes of integers' names."""

    def __str__(self):
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, specification):
        return format(str(self), specification)


class _Flags(_Enum):
    """A flag's number is its bit's: 1 << int(flag)."""


def _numbered(name, members, base=_Enum, module=__name__):
    """An enumeration of words, which count from 0; "NAME=3" sets the number."""
    numbers, following = {}, 0
    for word in members.split():
        word, _, number = word.partition("=")
        numbers[word] = int(number) if number else following
        following = numbers[word] + 1
    return base(name, numbers, module=module)


class DataType(_Enum):
    """Types of elements."""

    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    UINT8 = 5
    FP8 = 6
    BF16 = 7
    INT64 = 8
    INT4 = 9
    FP4 = 10
    E8M0 = 11

    @property
    def itemsize(self):
        """Bytes of an element; two of four bits share one."""
        return {"FLOAT": 4, "HALF": 2, "INT32": 4, "BF16": 2, "INT64": 8}.get(self.name, 1)


ActivationType = _numbered(
    "ActivationType",
    "RELU SIGMOID TANH LEAKY_RELU ELU SELU SOFTSIGN SOFTPLUS CLIP HARD_SIGMOID SCALED_TANH THRESHOLDED_RELU GELU_ERF "
    "GELU_TANH",
)
APILanguage = _numbered("APILanguage", "CPP PYTHON")
AllocatorFlag = _numbered("AllocatorFlag", "RESIZABLE")
BoundingBoxFormat = _numbered("BoundingBoxFormat", "CORNER_PAIRS CENTER_SIZES")
BuilderFlag = _numbered(
    "BuilderFlag",
    "FP16 INT8 DEBUG GPU_FALLBACK REFIT DISABLE_TIMING_CACHE TF32 SPARSE_WEIGHTS SAFETY_SCOPE OBEY_PRECISION_CONSTRAINTS "
    "PREFER_PRECISION_CONSTRAINTS DIRECT_IO REJECT_EMPTY_ALGORITHMS VERSION_COMPATIBLE EXCLUDE_LEAN_RUNTIME FP8 "
    "ERROR_ON_TIMING_CACHE_MISS BF16 DISABLE_COMPILATION_CACHE STRIP_PLAN WEIGHTLESS=19 REFIT_IDENTICAL WEIGHT_STREAMING "
    # The last two are TensorRT 8's alone; their numbers are beyond what TensorRT 10 has.
    "INT4 REFIT_INDIVIDUAL STRICT_NANS MONITOR_MEMORY FP4 EDITABLE_TIMING_CACHE DISTRIBUTIVE_INDEPENDENCE "
    "STRICT_TYPES=40 ENABLE_TACTIC_HEURISTIC",
    _Flags,
)
AttentionNormalizationOp = _numbered("AttentionNormalizationOp", "NONE SOFTMAX")
CalibrationAlgoType = _numbered(
    "CalibrationAlgoType", "LEGACY_CALIBRATION ENTROPY_CALIBRATION ENTROPY_CALIBRATION_2 MINMAX_CALIBRATION"
)
CumulativeOperation = _numbered("CumulativeOperation", "SUM")
DeviceType = _numbered("DeviceType", "GPU DLA")
ElementWiseOperation = _numbered(
    "ElementWiseOperation", "SUM PROD MAX MIN SUB DIV POW FLOOR_DIV AND OR XOR EQUAL GREATER LESS"
)
EngineCapability = _numbered("EngineCapability", "STANDARD DEFAULT=0 SAFETY=1 SAFE_GPU=1 DLA_STANDALONE=2 SAFE_DLA=2")
ErrorCode = _numbered(
    "ErrorCode",
    "SUCCESS INTERNAL_ERROR MEM_ALLOC_FAILED MODEL_DESERIALIZE_FAILED INVALID_VALUE INVALID_GRAPH INVALID_NODE "
    "UNSUPPORTED_GRAPH UNSUPPORTED_NODE UNSUPPORTED_NODE_ATTR UNSUPPORTED_NODE_INPUT UNSUPPORTED_NODE_DATATYPE "
    "UNSUPPORTED_NODE_DYNAMIC UNSUPPORTED_NODE_SHAPE REFIT_FAILED",
)
ErrorCodeTRT = _numbered(
    "ErrorCodeTRT",
    "SUCCESS UNSPECIFIED_ERROR INTERNAL_ERROR INVALID_ARGUMENT INVALID_CONFIG FAILED_ALLOCATION FAILED_INITIALIZATION "
    "FAILED_EXECUTION FAILED_COMPUTATION INVALID_STATE UNSUPPORTED_STATE",
)
ExecutionContextAllocationStrategy = _numbered(
    "ExecutionContextAllocationStrategy", "STATIC ON_PROFILE_CHANGE USER_MANAGED"
)
FillOperation = _numbered("FillOperation", "LINSPACE RANDOM_UNIFORM RANDOM_NORMAL")
GatherMode = _numbered("GatherMode", "DEFAULT ELEMENT ND")
HardwareCompatibilityLevel = _numbered("HardwareCompatibilityLevel", "NONE AMPERE_PLUS SAME_COMPUTE_CAPABILITY")
InterpolationMode = _numbered("InterpolationMode", "NEAREST LINEAR CUBIC")
ResizeMode = InterpolationMode  # its name in TensorRT 8
LayerInformationFormat = _numbered("LayerInformationFormat", "ONELINE JSON")
LayerType = _numbered(
    "LayerType",
    "CONVOLUTION CAST ACTIVATION POOLING LRN SCALE SOFTMAX DECONVOLUTION CONCATENATION ELEMENTWISE PLUGIN UNARY PADDING "
    "SHUFFLE REDUCE TOPK GATHER MATRIX_MULTIPLY RAGGED_SOFTMAX CONSTANT IDENTITY PLUGIN_V2 SLICE SHAPE PARAMETRIC_RELU "
    "RESIZE TRIP_LIMIT RECURRENCE ITERATOR LOOP_OUTPUT SELECT FILL QUANTIZE DEQUANTIZE CONDITION CONDITIONAL_INPUT "
    "CONDITIONAL_OUTPUT SCATTER EINSUM ASSERTION ONE_HOT NON_ZERO GRID_SAMPLE NMS REVERSE_SEQUENCE NORMALIZATION PLUGIN_V3 "
    # The last one is TensorRT 8's alone; its number is beyond what TensorRT 10 has.
    "SQUEEZE UNSQUEEZE CUMULATIVE DYNAMIC_QUANTIZE ATTENTION_INPUT ATTENTION_OUTPUT ROTARY_EMBEDDING KV_CACHE_UPDATE "
    "FULLY_CONNECTED=100",
)
LoopOutput = _numbered("LoopOutput", "LAST_VALUE CONCATENATE REVERSE")
MatrixOperation = _numbered("MatrixOperation", "NONE TRANSPOSE VECTOR")
MemoryPoolType = _numbered(
    "MemoryPoolType",
    "WORKSPACE DLA_MANAGED_SRAM DLA_LOCAL_DRAM DLA_GLOBAL_DRAM TACTIC_DRAM TACTIC_SHARED_MEMORY",
)
NetworkDefinitionCreationFlag = _numbered(
    "NetworkDefinitionCreationFlag",
    # EXPLICIT_PRECISION is TensorRT 8's.
    "EXPLICIT_BATCH STRONGLY_TYPED PREFER_JIT_PYTHON_PLUGINS PREFER_AOT_PYTHON_PLUGINS EXPLICIT_PRECISION=40",
    _Flags,
)
OnnxParserFlag = _numbered(
    "OnnxParserFlag",
    "NATIVE_INSTANCENORM ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA REPORT_CAPABILITY_DLA ENABLE_PLUGIN_OVERRIDE ADJUST_FOR_DLA",
    _Flags,
)
PaddingMode = _numbered("PaddingMode", "EXPLICIT_ROUND_DOWN EXPLICIT_ROUND_UP SAME_UPPER SAME_LOWER")
PoolingType = _numbered("PoolingType", "MAX AVERAGE MAX_AVERAGE_BLEND")
PreviewFeature = _numbered(
    "PreviewFeature",
    # The last two are TensorRT 8's.
    "PROFILE_SHARING_0806 ALIASED_PLUGIN_IO_10_03 RUNTIME_ACTIVATION_RESIZE_10_10 MULTIDEVICE_RUNTIME_10_16 "
    "FASTER_DYNAMIC_SHAPES_0805=40 DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805",
    _Flags,
)
ProfilingVerbosity = _numbered("ProfilingVerbosity", "LAYER_NAMES_ONLY NONE DETAILED DEFAULT=0 VERBOSE=2")
QuantizationFlag = _numbered("QuantizationFlag", "CALIBRATE_BEFORE_FUSION", _Flags)
ReduceOperation = _numbered("ReduceOperation", "SUM PROD MAX MIN AVG")
ResizeCoordinateTransformation = _numbered("ResizeCoordinateTransformation", "ALIGN_CORNERS ASYMMETRIC HALF_PIXEL")
ResizeRoundMode = _numbered("ResizeRoundMode", "HALF_UP HALF_DOWN FLOOR CEIL")
ResizeSelector = _numbered("ResizeSelector", "FORMULA UPPER")
RuntimePlatform = _numbered("RuntimePlatform", "SAME_AS_BUILD WINDOWS_AMD64")
SampleMode = _numbered("SampleMode", "STRICT_BOUNDS WRAP CLAMP FILL REFLECT DEFAULT=0")
SliceMode = SampleMode  # its name in TensorRT 8
ScaleMode = _numbered("ScaleMode", "UNIFORM CHANNEL ELEMENTWISE")
ScatterMode = _numbered("ScatterMode", "ELEMENT ND")
SeekPosition = _numbered("SeekPosition", "SET CUR END")
SerializationFlag = _numbered("SerializationFlag", "EXCLUDE_WEIGHTS EXCLUDE_LEAN_RUNTIME INCLUDE_REFIT", _Flags)
TacticSource = _numbered("TacticSource", "CUBLAS CUBLAS_LT CUDNN EDGE_MASK_CONVOLUTIONS JIT_CONVOLUTIONS", _Flags)
TempfileControlFlag = _numbered("TempfileControlFlag", "ALLOW_IN_MEMORY_FILES ALLOW_TEMPORARY_FILES", _Flags)
TensorFormat = _numbered(
    "TensorFormat", "LINEAR CHW2 HWC8 CHW4 CHW16 CHW32 DHWC8 CDHW32 HWC DLA_LINEAR DLA_HWC4 HWC16 DHWC", _Flags
)
TensorIOMode = _numbered("TensorIOMode", "NONE INPUT OUTPUT")
TensorLocation = _numbered("TensorLocation", "DEVICE HOST")
TilingOptimizationLevel = _numbered("TilingOptimizationLevel", "NONE FAST MODERATE FULL")
TopKOperation = _numbered("TopKOperation", "MAX MIN")
TripLimit = _numbered("TripLimit", "COUNT WHILE")
UnaryOperation = _numbered(
    "UnaryOperation",
    "EXP LOG SQRT RECIP ABS NEG SIN COS TAN SINH COSH ASIN ACOS ATAN ASINH ACOSH ATANH CEIL FLOOR ERF NOT SIGN ROUND ISINF "
    "ISNAN",
)
WeightsRole = _numbered("WeightsRole", "KERNEL BIAS SHIFT SCALE CONSTANT ANY")
DimensionOperation = _numbered("DimensionOperation", "SUM PROD MAX MIN SUB EQUAL LESS FLOOR_DIV CEIL_DIV")
PluginCapabilityType = _numbered("PluginCapabilityType", "CORE BUILD RUNTIME")
PluginCreatorVersion = _numbered("PluginCreatorVersion", "V1 V1_PYTHON")
PluginFieldType = _numbered(
    "PluginFieldType", "FLOAT16 FLOAT32 FLOAT64 INT8 INT16 INT32 CHAR DIMS UNKNOWN BF16 INT64 FP8 INT4 FP4"
)
TensorRTPhase = _numbered("TensorRTPhase", "BUILD RUNTIME")
QuickPluginCreationRequest = _numbered(
    "QuickPluginCreationRequest", "UNKNOWN PREFER_JIT PREFER_AOT STRICT_JIT STRICT_AOT"
)
PluginArgType = _numbered("PluginArgType", "INT")
PluginArgDataType = _numbered("PluginArgDataType", "INT8 INT16 INT32")
