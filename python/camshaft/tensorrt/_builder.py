"""Builders: from networks to engines."""

import re
import tempfile
from pathlib import Path

import camshaft
from camshaft.tensorrt import _cuda
from camshaft.tensorrt._add_layers import Network
from camshaft.tensorrt._algorithms import Selection
from camshaft.tensorrt._assertions import check_known
from camshaft.tensorrt._calibrators import calibration_file, file_of_ranges
from camshaft.tensorrt._config import (
    REFUSED,
    WITHOUT_EFFECT,
    IBuilderConfig,
    IOptimizationProfile,
    precision_options,
    refit_options,
    tuning_options,
)
from camshaft.tensorrt._enums import BuilderFlag, DataType, LayerType, NetworkDefinitionCreationFlag, TripLimit
from camshaft.tensorrt._log import Reporter, Severity, theirs
from camshaft.tensorrt._runtime import ICudaEngine
from camshaft.tensorrt._values import IHostMemory, threads_of

_PRECISIONS = {
    DataType.FLOAT: "fp32",
    DataType.HALF: "fp16",
    DataType.BF16: "bf16",
    DataType.INT8: "int8",
    DataType.FP8: "fp8",
}


class IProgressMonitor:
    """Is told how far a build is: derive from it, and write phase_start(phase_name, parent_phase, num_steps),
    step_complete(phase_name, step), which stops the build by giving False, and phase_finish(phase_name)."""

    def __init__(self):
        pass

    def phase_start(self, phase_name, parent_phase, num_steps):
        raise NotImplementedError("a progress monitor needs phase_start()")

    def step_complete(self, phase_name, step):
        raise NotImplementedError("a progress monitor needs step_complete()")

    def phase_finish(self, phase_name):
        raise NotImplementedError("a progress monitor needs phase_finish()")


class _Monitored:
    """Tells a progress monitor what a build tells of its stages."""

    _STEPS = 100

    def __init__(self, monitor):
        self._monitor, self._phase, self._step = monitor, None, -1

    def __call__(self, stage, fraction):
        if stage != self._phase:
            self.finish()
            self._phase, self._step = stage, -1
            with theirs():
                self._monitor.phase_start(stage, None, self._STEPS)
        reached = min(self._STEPS - 1, int(fraction * self._STEPS))
        while self._step < reached:
            self._step += 1
            with theirs():
                goes_on = self._monitor.step_complete(stage, self._step)
            if goes_on is False:
                raise _Stopped

    def finish(self):
        if self._phase is not None:
            self._monitor.phase_finish(self._phase)
            self._phase = None


class _Stopped(Exception):
    """The progress monitor wants no more."""


_GONE = "the model has no such node"  # what a build says of a precision


class Builder(Reporter):
    """Makes networks, configurations and engines."""

    def __init__(self, logger):
        super().__init__(logger)
        self.logger = logger
        self.gpu_allocator = None
        self.max_threads = 0
        self.max_batch_size = 1
        self.max_DLA_batch_size = 0
        self.num_DLA_cores = 0

    #: What may be faster here is measured; no flag is refused for the sake of the device.
    platform_has_fast_fp16 = True
    platform_has_fast_int8 = True
    platform_has_tf32 = property(lambda self: _cuda.has_gpu())

    def create_network(self, flags=0):
        return Network(self, int(flags), self._logger)

    def create_builder_config(self):
        return IBuilderConfig()

    def create_optimization_profile(self):
        return IOptimizationProfile()

    def get_plugin_registry(self):
        from camshaft.tensorrt import get_plugin_registry

        return get_plugin_registry()

    def is_network_supported(self, network, config):
        return True

    def reset(self):
        pass

    # ---- Building ----

    def build_serialized_network(self, network, config):
        """The engine's bytes; None, with a message to the logger, when something went wrong."""
        engine = self._build(network, config)
        return None if engine is None else IHostMemory(bytes(engine))

    def build_serialized_network_to_stream(self, network, config, writer):
        """Whether the engine was built and written to an IStreamWriter."""
        data = self.build_serialized_network(network, config)
        return data is not None and writer.write(data) == len(data)

    def build_engine_with_config(self, network, config):
        """The engine, without a detour through bytes."""
        engine = self._build(network, config)
        return None if engine is None else ICudaEngine(engine, self._logger)

    def build_engine(self, network, config):
        """Of TensorRT 8."""
        return self.build_engine_with_config(network, config)

    def build_cuda_engine(self, network):
        """Of TensorRT 7."""
        return self.build_engine_with_config(network, IBuilderConfig())

    def _build(self, network, config):
        monitored = None if config.progress_monitor is None else _Monitored(config.progress_monitor)
        try:
            with self._reporting(), tempfile.TemporaryDirectory(prefix="camshaft-") as folder:
                self._tell_of_flags(config)
                check_known(network)
                model, nodes = network._to_model()
                options = self._options(network, config, folder, model, nodes)
                engine = self._selected(network, model, monitored, options, config, Path(folder) / "lock")
                self._tell_of(engine.report)
                cache, path = config.get_timing_cache(), Path(options.get("timing_cache", ""))
                if cache is not None and path.exists():  # where nothing was to be measured there is none
                    cache._data = path.read_bytes()
                return engine
        except _Stopped:
            self._log(Severity.INFO, "the progress monitor stopped the build")
        finally:
            if monitored is not None:
                monitored.finish()
        return None

    def _selected(self, network, model, monitored, options, config, lock):
        """With the kernels that an algorithm selector takes: where they are others than the build's, it is built again."""
        if config.algorithm_selector is None:
            return self._built(network, model, monitored, options)
        engine = self._built(network, model, monitored, {**options, "write_lock": str(lock)})
        rejects_empty = config.get_flag(BuilderFlag.REJECT_EMPTY_ALGORITHMS)
        selection = Selection(config.algorithm_selector, lock, rejects_empty)
        if selection.ask(engine.layers()):
            locked = {**options, "tuning": "locked", "lock": str(lock)}
            engine = self._built(network, self._again(network, model), monitored, locked)
        selection.report()
        return engine

    @staticmethod
    def _again(network, model):
        """The model for another build: a network is written anew."""
        return model if isinstance(model, bytes) else network._to_model()[0]

    def _built(self, network, model, monitored, options):
        """Programs ask precisions of every layer, also of such as are gone when a graph was folded."""
        try:
            return self._tried(network, model, monitored, options)
        except camshaft.InvalidArgumentError as error:
            if _GONE not in str(error):
                raise
        fewer = self._of_nodes_that_stay(self._again(network, model), options)
        return self._tried(network, self._again(network, model), monitored, fewer)

    def _of_nodes_that_stay(self, model, options):
        """The options without the precisions of nodes that an engine does not have."""
        without = {"tuning": "heuristic", "verify": False, "layer_precisions": None, "layer_output_types": None}
        for name in ("timing_cache", "lock", "write_lock"):
            without[name] = None
        engine = camshaft.build(model, **{**options, **without})
        there = {name for layer in engine.inspect()["layers"] for name in layer["sources"]}

        def stays(rule):
            name = rule.rpartition(":")[0]
            pattern = re.compile(re.escape(name).replace(r"\*", ".*"))
            return name in there or ("*" in name and any(map(pattern.fullmatch, there)))

        fewer = {
            name: list(filter(stays, options.get(name) or [])) for name in ("layer_precisions", "layer_output_types")
        }
        return {**options, **{name: rules or None for name, rules in fewer.items()}}

    def _tried(self, network, model, monitored, options):
        """Numbers that are drawn may keep a loop with a condition running for ever; then nothing can be tried."""
        try:
            return camshaft.build(model, progress=monitored, **options)
        except camshaft.UnsupportedError as error:
            if "max-operations" not in str(error) or not any(
                layer.type == LayerType.TRIP_LIMIT and layer.kind == TripLimit.WHILE for layer in network
            ):
                raise
            self._log(
                Severity.WARNING,
                "the engine is not verified, and its kernels are chosen by estimate: a loop did not end on numbers that "
                "were drawn; give it a trip limit COUNT beside WHILE to have it tried",
            )
        return camshaft.build(model, progress=monitored, **{**options, "verify": False, "tuning": "heuristic"})

    def _tell_of_flags(self, config):
        for flag, reason in REFUSED.items():
            if config.get_flag(flag):
                raise ValueError(f"BuilderFlag.{flag.name}: {reason}")
        for flag, reason in WITHOUT_EFFECT.items():
            if config.get_flag(flag):
                self._log(Severity.INFO, f"BuilderFlag.{flag.name} has no effect: {reason}")

    def _tell_of(self, report):
        for warning in report.get("warnings", []):
            self._log(Severity.WARNING, warning)
        for fixed in report.get("not_refittable", []):
            self._log(Severity.INFO, f"a refit cannot replace {fixed}")
        self._log(Severity.VERBOSE, f"engine built: {report['layers']} layers")

    def _options(self, network, config, folder, model, nodes):
        """The options of camshaft.build()."""
        options = {**precision_options(config), **tuning_options(config), **refit_options(config)}
        options["device"] = _cuda.device()
        if network._folder is not None and isinstance(model, bytes):
            options["folder"] = network._folder
        for tensor in network._debug_tensors:
            if tensor.is_network_output:
                self._log(Severity.WARNING, f"tensor '{tensor.name}' is an output: a debug listener does not get it")
        if network._debug_tensors:
            options["debug_tensors"] = [tensor.name for tensor in network._debug_tensors]
        if self.max_threads > 0:
            options["threads"] = threads_of(self.max_threads)
        if network.get_flag(NetworkDefinitionCreationFlag.STRONGLY_TYPED):
            options = {
                key: value for key, value in options.items() if key not in _PRECISIONS.values() and key != "tf32"
            }
            options["strongly_typed"] = True
        profiles = [self._ranges(profile, network) for profile in config._profiles]
        if any(profiles):
            options["profiles"] = profiles
        self._check_inputs(network, profiles)
        if config.get_timing_cache() is not None:
            cache = config.get_timing_cache()
            path = Path(folder) / "timing"
            if cache is not None and len(cache._data):
                path.write_bytes(cache._data)
            options["timing_cache"] = str(path)
        needed = network._needed()
        options.update(self._constraints({layer: names for layer, names in nodes.items() if layer in needed}))
        flags = [name for name in ("int8", "fp8") if options.get(name)]
        if flags and not options.get("strongly_typed"):
            calibration = self._calibration(network, config, folder, model, options, flags)
            if calibration is None:
                # As TensorRT does without ranges: a quantised model is int8 or fp8 by what it says itself.
                for name in flags:
                    options.pop(name)
            else:
                options["calibration"] = str(calibration)
        return options

    @staticmethod
    def _ranges(profile, network):
        names = {tensor.name for tensor in network._inputs}
        for name in profile._shapes:
            if name not in names:
                raise ValueError(
                    f"a profile has shapes of '{name}': the network has the inputs {', '.join(sorted(names))}"
                )
        return profile._shapes

    @staticmethod
    def _check_inputs(network, profiles):
        """TensorRT's rule that dynamic inputs need a profile does not hold here: without one an engine takes any shape."""
        for tensor in network._inputs:
            for profile in profiles:
                if profile and tensor.name not in profile and -1 in tensor.shape:
                    raise ValueError(f"input '{tensor.name}' is dynamic, and a profile has no shapes for it")

    def _constraints(self, nodes):
        """Precisions and types of single layers that are needed, by the names of their nodes; the last one computes the result. Whether a
        result is stored in 8 bits follows from the layers that read it: programs ask it of every layer of a network."""
        precisions, types, narrow = [], [], []
        for layer, names in nodes.items():
            names = [name.replace(",", "*") for name in names]
            if layer.precision_is_set and layer.precision in _PRECISIONS:
                precisions += [f"{name}:{_PRECISIONS[layer.precision]}" for name in names]
            if layer.output_type_is_set(0) and layer.get_output_type(0) in _PRECISIONS:
                kind = _PRECISIONS[layer.get_output_type(0)]
                (narrow if kind in ("int8", "fp8") else types).append(f"{names[-1]}:{kind}")
        if narrow:
            self._log(
                Severity.INFO,
                f"the results of {len(narrow)} layers are to be in 8 bits: they are where the layers that read them compute so",
            )
        return {"layer_precisions": precisions or None, "layer_output_types": types or None}

    def _calibration(self, network, config, folder, model, options, flags):
        """The path of a file with ranges, or None: nothing says what they are."""
        ranges = {
            tensor.name: tensor.dynamic_range
            for tensor in network._tensors.values()
            if tensor.dynamic_range is not None
        }
        if config.int8_calibrator is None:
            if not ranges:
                self._log(
                    Severity.WARNING,
                    f"BuilderFlag.{flags[0].upper()} without a calibrator and without dynamic ranges: layers that the "
                    "model does not quantise itself stay in floating point",
                )
                return None
            return file_of_ranges(folder, ranges)
        profile = config.get_calibration_profile()
        if profile is None and config._profiles:
            profile = config._profiles[0]
        shapes = {}
        for tensor in network._inputs:
            given = [] if profile is None else profile.get_shape(tensor.name)
            shape = given[1] if given else tensor.shape
            if -1 in shape:
                raise ValueError(f"input '{tensor.name}' is dynamic: calibrating needs a profile with its shape")
            shapes[tensor.name] = tuple(shape)
        passed = {"device": options["device"], "tuning": "heuristic"}
        if network._has_external_data() and isinstance(model, bytes):
            model, _ = network._to_network()
        return calibration_file(
            folder, config.int8_calibrator, model, network._inputs, shapes, options["device"], passed
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass
