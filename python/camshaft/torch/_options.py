"""What a compilation is told: the options of torch.compile(…, options={…}) and of camshaft.torch.compile()."""

from __future__ import annotations

import dataclasses
import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from camshaft._errors import InvalidArgumentError

log = logging.getLogger("camshaft.torch")

_PRECISIONS = {
    "fp32": "fp32",
    "float32": "fp32",
    "float": "fp32",
    "f32": "fp32",
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "tf32": "tf32",
    "int8": "int8",
    "i8": "int8",
    "best": "best",
}
# Of torch_tensorrt: what has no meaning here and changes no result.
_WITHOUT_MEANING = set(
    "debug workspace_size use_python_runtime dla_sram_size dla_local_dram_size dla_global_dram_size engine_capability "
    "hardware_compatible version_compatible num_avg_timing_iters max_aux_streams sparse_weights use_fast_partitioner "
    "assume_dynamic_shape_support enable_experimental_decompositions use_explicit_typing timing_cache_path "
    "enable_cross_compile_for_windows tiling_optimization_level l2_limit_for_tiling offload_module_to_cpu "
    "enable_autocast dryrun ir arg_inputs kwarg_inputs refit immutable_weights "
    "refit_identical_engine_weights make_refittable enable_weight_streaming lazy_engine_init use_fp32_acc "
    "decompose_attention attn_bias_is_causal".split()
)
_OTHER_NAMES = {
    "precision": "enabled_precisions",
    "truncate_double": "truncate_long_and_double",
    "torch_executed_modules": "torch_executed_ops",
    "use_cudagraphs": "use_cuda_graph",
    "engine_cache_dir": "cache_dir",
    "engine_cache_size": "cache_size",
    "strip_engine_weights": "cache_weightless",
}


@dataclasses.dataclass(frozen=True)
class Options:
    #: What may be computed in beside fp32: "fp16", "bf16", "tf32", "int8", "best", or types of torch.
    enabled_precisions: frozenset[str] = frozenset()
    #: Computes what is float64 in float32. Integers of 64 bits need no cutting: they are computed as they are.
    truncate_long_and_double: bool = False
    #: Parts of fewer operators stay with PyTorch, unless a part is the whole graph.
    min_block_size: int = 5
    #: Operators that stay with PyTorch: "aten.add.Tensor", or torch.ops.aten.add.Tensor.
    torch_executed_ops: frozenset[str] = frozenset()
    #: Raises what goes wrong in a build, where otherwise a warning says it and PyTorch runs that part.
    pass_through_build_failures: bool = False
    #: Raises if any operator stays with PyTorch.
    require_full_compilation: bool = False
    #: 0 to 2 choose kernels by the cost model, 3 and more measure them.
    optimization_level: int = 3
    #: Stops measuring after this long: the cost model decides the rest. torch.compile takes 4 on GPUs.
    tuning_seconds: float = 60
    #: True: sizes may change from call to call where they do. torch.compile's own argument says the same.
    dynamic: bool | None = None
    #: torch_tensorrt's, without effect: on a GPU engines record and replay their runs by themselves.
    use_cuda_graph: bool = True
    #: Compares each engine with the reference evaluation, which is slow for large models.
    verify: bool = False
    #: Threads of a run; 0: as many as torch.get_num_threads() says.
    threads: int = 0
    #: Keeps engines on disk and takes them from there.
    cache: bool = True
    #: Where; "": CAMSHAFT_TORCH_CACHE, or camshaft/torch in the user's cache folder.
    cache_dir: str = ""
    #: Bytes that they may take there; those that were used the longest ago make room. 0: any number.
    cache_size: int = 20 << 30
    #: Keeps them without weights: one for all modules that differ in these alone, which get their own by a refit.
    cache_weightless: bool = False


def parsed(given: Mapping[str, Any] | None) -> Options:
    """Options by their names or those of torch_tensorrt. A name that neither has raises InvalidArgumentError."""
    known = {field.name for field in dataclasses.fields(Options)}
    chosen: dict[str, Any] = {}
    for name, value in (given or {}).items():
        if name in ("cache_built_engines", "reuse_cached_engines"):
            chosen["cache"] = chosen.get("cache", True) and bool(value)
            continue
        own = _OTHER_NAMES.get(name, name)
        if own in _WITHOUT_MEANING:
            log.debug("the option %s has no meaning for Camshaft", name)
            continue
        if own not in known:
            near = difflib.get_close_matches(name, [*known, *_OTHER_NAMES], 1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(sorted(known))}"
            raise InvalidArgumentError(f"the backend camshaft has no option '{name}'{hint}")
        if value is not None:
            chosen[own] = value
    if "enabled_precisions" in chosen:
        chosen["enabled_precisions"] = _precisions(chosen["enabled_precisions"])
    if "torch_executed_ops" in chosen:
        chosen["torch_executed_ops"] = _operators(chosen["torch_executed_ops"])
    options = Options(**chosen)
    if not isinstance(options.optimization_level, int) or not 0 <= options.optimization_level <= 5:
        raise InvalidArgumentError(f"optimization_level is a number from 0 to 5, not {options.optimization_level!r}")
    if not isinstance(options.cache_size, int) or options.cache_size < 0:
        raise InvalidArgumentError(f"cache_size is a number of bytes, or 0, not {options.cache_size!r}")
    if not isinstance(options.min_block_size, int) or options.min_block_size < 1:
        raise InvalidArgumentError(f"min_block_size is a number from 1 on, not {options.min_block_size!r}")
    return options


def _precisions(given: Any) -> frozenset[str]:
    items = [given] if isinstance(given, (str, torch.dtype)) else list(given)
    chosen = set()
    for item in items:
        name = getattr(item, "name", None) or str(item)
        name = name.removeprefix("torch.").lower()
        if name not in _PRECISIONS:
            raise InvalidArgumentError(
                f"{item!r} is no precision: give one of {', '.join(sorted(set(_PRECISIONS.values())))}, or a torch.dtype"
            )
        chosen.add(_PRECISIONS[name])
    return frozenset(chosen - {"fp32"})


def _operators(given: Any) -> frozenset[str]:
    """As the graph's targets print: "torch.ops.aten.add.Tensor" is "aten.add.Tensor", and "aten.add" all of add's."""
    items: Iterable[Any] = [given] if isinstance(given, str) else given
    names: set[str] = set()
    for item in items:
        name = str(item).removeprefix("torch.ops.").replace("::", ".")
        parts = name.split(".")
        packet = getattr(getattr(torch.ops, parts[0]), parts[1]) if len(parts) == 2 else None
        names.update(f"{name}.{overload}" for overload in packet.overloads()) if packet is not None else names.add(name)
    return frozenset(names)


def build_options(options: Options) -> dict[str, Any]:
    """As camshaft.build() takes them."""
    chosen: dict[str, Any] = {name: True for name in sorted(options.enabled_precisions)}
    chosen["verify"] = options.verify
    if options.cache and options.cache_weightless:
        chosen["strip_weights"] = True
    chosen["tuning"] = "measure" if options.optimization_level >= 3 else "heuristic"
    chosen["tuning_seconds"] = options.tuning_seconds
    return chosen
