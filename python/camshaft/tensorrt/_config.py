"""What a build is to do: its configuration, profiles of shapes, and the cache of measured times."""

from camshaft.tensorrt import cudart
from camshaft.tensorrt._cuda import has_gpu
from camshaft.tensorrt._enums import (
    BuilderFlag,
    DeviceType,
    EngineCapability,
    HardwareCompatibilityLevel,
    MemoryPoolType,
    PreviewFeature,
    ProfilingVerbosity,
    RuntimePlatform,
    TacticSource,
    TilingOptimizationLevel,
)
from camshaft.tensorrt._timing_cache import ITimingCache
from camshaft.tensorrt._values import Dims

#: The bits of flags that change nothing here: what they ask for is the case anyway, or has no meaning on this device.
WITHOUT_EFFECT = {
    BuilderFlag.DEBUG: "each layer's errors are known without it",
    BuilderFlag.GPU_FALLBACK: "there is no DLA to fall back from",
    BuilderFlag.DIRECT_IO: "inputs and outputs are never copied into another layout",
    BuilderFlag.EXCLUDE_LEAN_RUNTIME: "engines hold no runtime",
    BuilderFlag.VERSION_COMPATIBLE: "engines say themselves which versions load them",
    BuilderFlag.DISABLE_COMPILATION_CACHE: "kernels are cached for the user",
    BuilderFlag.STRICT_NANS: "NaN is never lost",
    BuilderFlag.MONITOR_MEMORY: "the report has the memory of a build",
    BuilderFlag.ENABLE_TACTIC_HEURISTIC: "see builder_optimization_level",
    BuilderFlag.WEIGHT_STREAMING: "every engine's weights can be streamed",
    BuilderFlag.SPARSE_WEIGHTS: "there are no kernels for sparse weights",
    BuilderFlag.DISTRIBUTIVE_INDEPENDENCE: "a result depends on the batch's size where other tactics are chosen for it",
}
#: Flags whose meaning a build would get wrong silently: they are refused.
REFUSED = {
    BuilderFlag.SAFETY_SCOPE: "there are no safety engines",
    BuilderFlag.ERROR_ON_TIMING_CACHE_MISS: "camshaft.build(…, tuning='locked', lock=FILE) fails where nothing is known",
    BuilderFlag.INT4: "weights of four bits are taken as the model has them, without a flag",
    BuilderFlag.FP4: "there are no kernels in FP4",
}


class IOptimizationProfile:
    """Shapes of inputs: the smallest, the one to tune for, and the largest."""

    def __init__(self):
        self._shapes = {}
        self._values = {}
        self.extra_memory_target = 0

    def set_shape(self, input, min, opt, max):
        """Raises ValueError for shapes that are not in this order."""
        shapes = tuple(Dims(shape) for shape in (min, opt, max))
        _check_order(input, shapes)
        self._shapes[input] = shapes

    def get_shape(self, input):
        return list(self._shapes.get(input, []))

    def set_shape_input(self, input, min, opt, max):
        """The values of an input that holds a shape: the engine takes any, and they need not be known."""
        values = tuple([int(value) for value in given] for given in (min, opt, max))
        _check_order(input, values)
        self._values[input] = values

    def get_shape_input(self, input):
        return [list(values) for values in self._values.get(input, [])]

    def __bool__(self):
        return True


def _check_order(name, shapes):
    if len({len(shape) for shape in shapes}) != 1:
        raise ValueError(f"input '{name}': the smallest, the usual and the largest shape have the same rank")
    for low, usual, high in zip(*shapes):
        if not low <= usual <= high:
            raise ValueError(
                f"input '{name}': {Dims(shapes[0])} to {Dims(shapes[2])} does not contain {Dims(shapes[1])}"
            )


class IBuilderConfig:
    """How to build. Made by Builder.create_builder_config()."""

    def __init__(self):
        self.reset()

    def __del__(self):
        """As Reporter.__del__."""

    def reset(self):
        """Everything as it was at the start."""
        self.flags = 1 << int(BuilderFlag.TF32)
        self.avg_timing_iterations = 1
        self.min_timing_iterations = 1
        self.builder_optimization_level = 3
        self.max_num_tactics = -1
        self.max_aux_streams = 0
        self.engine_capability = EngineCapability.STANDARD
        self.default_device_type = DeviceType.GPU
        self.DLA_core = -1
        self.profile_stream = 0
        self.profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self.hardware_compatibility_level = HardwareCompatibilityLevel.NONE
        self.runtime_platform = RuntimePlatform.SAME_AS_BUILD
        self.tiling_optimization_level = TilingOptimizationLevel.NONE
        self.l2_limit_for_tiling = -1
        self.plugins_to_serialize = []
        self.int8_calibrator = None
        self.algorithm_selector = None
        self.progress_monitor = None
        self.quantization_flags = 0
        self.remote_auto_tuning_config = ""
        self._profiles = []
        self._calibration_profile = None
        self._pools = {}
        self._tactic_sources = sum(1 << int(source) for source in TacticSource)
        self._previews = {}
        self._timing_cache = None

    def set_flag(self, flag):
        self.flags |= 1 << int(BuilderFlag(flag))

    def clear_flag(self, flag):
        self.flags &= ~(1 << int(BuilderFlag(flag)))

    def get_flag(self, flag):
        return bool(self.flags >> int(BuilderFlag(flag)) & 1)

    def set_quantization_flag(self, flag):
        self.quantization_flags |= 1 << int(flag)

    def clear_quantization_flag(self, flag):
        self.quantization_flags &= ~(1 << int(flag))

    def get_quantization_flag(self, flag):
        return bool(self.quantization_flags >> int(flag) & 1)

    @property
    def max_workspace_size(self):
        """Of TensorRT 8: the pool WORKSPACE."""
        return self.get_memory_pool_limit(MemoryPoolType.WORKSPACE)

    @max_workspace_size.setter
    def max_workspace_size(self, size):
        self.set_memory_pool_limit(MemoryPoolType.WORKSPACE, size)

    def set_memory_pool_limit(self, pool, pool_size):
        """Kept, and without effect: what a run needs is planned exactly, and kernels have no workspace to choose."""
        if pool_size < 0:
            raise ValueError(f"{pool_size} bytes for {MemoryPoolType(pool)}")
        self._pools[MemoryPoolType(pool)] = int(pool_size)

    def get_memory_pool_limit(self, pool):
        if pool == MemoryPoolType.WORKSPACE and pool not in self._pools:
            return cudart.cudaMemGetInfo()[2]  # all there is
        return self._pools.get(MemoryPoolType(pool), 0)

    def add_optimization_profile(self, profile):
        """Its number."""
        self._profiles.append(profile)
        return len(self._profiles) - 1

    @property
    def num_optimization_profiles(self):
        return len(self._profiles)

    def set_calibration_profile(self, profile):
        self._calibration_profile = profile
        return True

    def get_calibration_profile(self):
        return self._calibration_profile

    def create_timing_cache(self, serialized_timing_cache):
        return ITimingCache(serialized_timing_cache)

    def set_timing_cache(self, cache, ignore_mismatch):
        self._timing_cache = cache
        return True

    def get_timing_cache(self):
        return self._timing_cache

    def set_tactic_sources(self, tactic_sources):
        """CUBLAS_LT and CUDNN say whether these libraries take part on a GPU."""
        self._tactic_sources = int(tactic_sources)
        return True

    def get_tactic_sources(self):
        return self._tactic_sources

    def set_preview_feature(self, feature, enable):
        self._previews[PreviewFeature(feature)] = bool(enable)

    def get_preview_feature(self, feature):
        return self._previews.get(PreviewFeature(feature), False)

    def set_device_type(self, layer, device_type):
        if device_type != DeviceType.GPU:
            raise NotImplementedError(f"layer '{layer.name}': there is no DLA")

    def get_device_type(self, layer):
        return DeviceType.GPU

    def is_device_type_set(self, layer):
        return False

    def reset_device_type(self, layer):
        pass

    def can_run_on_DLA(self, layer):
        return False

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def precision_options(config):
    """Options of camshaft.build() for a configuration's flags."""
    flags = [
        (BuilderFlag.FP16, "fp16"),
        (BuilderFlag.BF16, "bf16"),
        (BuilderFlag.INT8, "int8"),
        (BuilderFlag.FP8, "fp8"),
    ]
    if has_gpu():  # TF32 is on by default, and only GPUs have it
        flags.append((BuilderFlag.TF32, "tf32"))
    options = {name: True for flag, name in flags if config.get_flag(flag)}
    if config.get_flag(BuilderFlag.OBEY_PRECISION_CONSTRAINTS):
        options["precision_constraints"] = "obey"
    elif config.get_flag(BuilderFlag.PREFER_PRECISION_CONSTRAINTS) or config.get_flag(BuilderFlag.STRICT_TYPES):
        # TensorRT documents STRICT_TYPES as the same as PREFER, which warns where a precision cannot be had.
        options["precision_constraints"] = "prefer"
    else:
        options["precision_constraints"] = "none"
    return options


def refit_options(config):
    """The same for replacing weights. What a refit can replace it may also leave as it is."""
    flags = (BuilderFlag.REFIT, BuilderFlag.REFIT_IDENTICAL, BuilderFlag.REFIT_INDIVIDUAL)
    options = {"refit": True} if any(config.get_flag(flag) for flag in flags) else {}
    return {**options, "strip_weights": True} if config.get_flag(BuilderFlag.STRIP_PLAN) else options


def tuning_options(config):
    """The same for how kernels are chosen."""
    level = config.builder_optimization_level
    if not 0 <= level <= 5:
        raise ValueError(f"builder_optimization_level {level}: 0 to 5 are possible")
    return {"tuning": "measure" if level >= 2 else "heuristic"}
