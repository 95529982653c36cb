#!/usr/bin/env python3
"""Writes the tables of docs/tensorrt.md: what camshaft.tensorrt has of each class of TensorRT's Python interface, and
what `camshaft trtexec` has of trtexec's flags.

A member is there when the class, or an object that is made here, has it. scripts/tensorrt_names.txt lists TensorRT's.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    import project_python

    project_python.use()

import camshaft_cli

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/tensorrt.md"
NAMES = ROOT / "scripts/tensorrt_names.txt"
BEGIN, END = "<!-- {} made by scripts/tensorrt_table.py -->\n", "<!-- end -->\n"

#: Members that are there, so that programs run, and change nothing; the reasons are in the page and in the docstrings.
WITHOUT_EFFECT = {
    "Builder": "gpu_allocator max_DLA_batch_size num_DLA_cores max_batch_size reset is_network_supported",
    "IBuilderConfig": "avg_timing_iterations min_timing_iterations engine_capability set_memory_pool_limit "
    "max_workspace_size default_device_type DLA_core profile_stream quantization_flags set_quantization_flag "
    "clear_quantization_flag set_device_type set_tactic_sources set_preview_feature max_num_tactics "
    "hardware_compatibility_level runtime_platform plugins_to_serialize max_aux_streams tiling_optimization_level "
    "l2_limit_for_tiling profiling_verbosity remote_auto_tuning_config",
    "BuilderFlag": "DEBUG GPU_FALLBACK DISABLE_TIMING_CACHE SPARSE_WEIGHTS DIRECT_IO "
    "VERSION_COMPATIBLE EXCLUDE_LEAN_RUNTIME DISABLE_COMPILATION_CACHE "
    "WEIGHT_STREAMING STRICT_NANS MONITOR_MEMORY DISTRIBUTIVE_INDEPENDENCE "
    "ENABLE_TACTIC_HEURISTIC",
    "ICudaEngine": "tactic_sources num_aux_streams "
    "create_execution_context_without_device_memory create_runtime_config",
    "IExecutionContext": "debug_sync device_memory set_device_memory set_input_consumed_event temporary_allocator "
    "persistent_cache_limit nvtx_verbosity set_aux_streams",
    "INetworkDefinition": "mark_weights_refittable unmark_weights_refittable are_weights_marked_refittable",
    "IOptimizationProfile": "set_shape_input extra_memory_target",
    "ITensor": "allowed_formats broadcast_across_batch location",
    "Runtime": "gpu_allocator DLA_core num_DLA_cores max_threads temporary_directory tempfile_control_flags "
    "engine_host_code_allowed",
    "OnnxParser": "flags set_flag clear_flag get_used_vc_plugin_libraries set_builder_config",
}
#: Members that answer with NotImplementedError, or with False and a message.
REFUSED = {
    "BuilderFlag": "ERROR_ON_TIMING_CACHE_MISS SAFETY_SCOPE INT4 FP4",
    "INetworkDefinition": "add_moe add_dist_collective add_kv_cache_update add_rnn_v2 mark_unfused_tensors_as_debug_tensors",
    "Runtime": "load_runtime",
    "Refitter": "set_dynamic_range get_dynamic_range get_tensors_with_dynamic_range",
}
#: Classes that can be named and derived from, and of which nobody asks anything, or whose objects cannot be made.
UNUSED = ("IGpuAllocator IGpuAsyncAllocator").split()


def names():
    """[(class, [member])] of TensorRT."""
    listed = []
    for line in NAMES.read_text().splitlines():
        if line.startswith("#"):
            continue
        kind, _, members = line.partition(":")
        listed.append((kind, members.replace("|", " ").split()))
    return listed


def layers(trt, network):
    """A layer of each class that can be added, by the name of its class."""
    import numpy

    x = network.add_input("x", trt.float32, (1, 4, 8, 8))
    row = network.add_input("row", trt.float32, (8,))
    i = network.add_input("i", trt.int32, (1,))
    weights = numpy.zeros((4, 4, 1, 1), numpy.float32)
    one = network.add_constant((), numpy.float32(1)).get_output(0)
    none = trt.MatrixOperation.NONE
    made = [
        network.add_convolution_nd(x, 4, (1, 1), weights),
        network.add_deconvolution_nd(x, 4, (1, 1), weights),
        network.add_fully_connected(x, 4, numpy.zeros((4, 256), numpy.float32)),
        network.add_activation(x, trt.ActivationType.RELU),
        network.add_pooling_nd(x, trt.PoolingType.MAX, (2, 2)),
        network.add_lrn(x, 3, 1.0, 1.0, 1.0),
        network.add_scale(x, trt.ScaleMode.UNIFORM, trt.Weights(), trt.Weights(), trt.Weights()),
        network.add_softmax(x),
        network.add_concatenation([x, x]),
        network.add_elementwise(x, x, trt.ElementWiseOperation.SUM),
        network.add_unary(x, trt.UnaryOperation.EXP),
        network.add_padding_nd(x, (1, 1), (1, 1)),
        network.add_shuffle(x),
        network.add_slice(x, (0,) * 4, (1,) * 4, (1,) * 4),
        network.add_reduce(x, trt.ReduceOperation.SUM, 1, True),
        network.add_topk(x, trt.TopKOperation.MAX, 1, 1 << 3),
        network.add_gather(x, i, 0),
        network.add_scatter(x, x, x, trt.ScatterMode.ELEMENT),
        network.add_matrix_multiply(x, none, x, none),
        network.add_constant((1,), numpy.zeros(1, numpy.float32)),
        network.add_resize(x),
        network.add_fill((1,), trt.FillOperation.LINSPACE),
        network.add_quantize(x, one),
        network.add_dequantize(x, one),
        network.add_normalization(x, row, row, 1 << 3),
        network.add_grid_sample(x, x),
        network.add_nms(x, x, i),
        network.add_cast(x, trt.int32),
        network.add_dynamic_quantize(x, 3, 8, trt.DataType.FP8, trt.DataType.E8M0),
        network.add_assertion(x, "of the table"),
        network.add_rotary_embedding(x, x, x, False, 0),
    ]
    attention = network.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, False)
    made.append(network.get_layer(network.num_layers - 1))
    made += [
        network.add_cumulative(x, i, trt.CumulativeOperation.SUM, False, False),
        network.add_einsum([row], "i->i"),
        network.add_identity(x),
        network.add_non_zero(x),
        network.add_one_hot(i, row, one, 0),
        network.add_parametric_relu(x, x),
        network.add_reverse_sequence(x, i),
        network.add_select(x, x, x),
        network.add_shape(x),
        network.add_squeeze(x, i),
        network.add_unsqueeze(x, i),
    ]
    loop, conditional = network.add_loop(), network.add_if_conditional()
    made += [
        loop.add_recurrence(x),
        loop.add_trip_limit(i, trt.TripLimit.COUNT),
        loop.add_iterator(x),
        loop.add_loop_output(x, trt.LoopOutput.LAST_VALUE),
        conditional.set_condition(i),
        conditional.add_input(x),
        conditional.add_output(x, x),
    ]
    found = {type(layer).__name__: layer for layer in made}
    found |= {"IAttention": attention, "IAttentionBoundaryLayer": found["IAttentionOutputLayer"]}
    found |= {"ILoopBoundaryLayer": found["IRecurrenceLayer"], "ILoop": loop, "IIfConditional": conditional}
    found |= {"IIfConditionalBoundaryLayer": found["IConditionLayer"], "ITensor": x, "ILayer": made[0]}
    return found


def objects(trt):
    """An object of each class whose members are set when it is made."""

    class Quiet(trt.ILogger):
        def log(self, severity, msg):
            pass

    logger = Quiet()
    builder = trt.Builder(logger)
    config = builder.create_builder_config()
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (2,))
    network.mark_output(network.add_identity(x).get_output(0))
    config.set_flag(trt.BuilderFlag.REFIT)
    engine = builder.build_engine_with_config(network, config)
    context = engine.create_execution_context()
    refitter = trt.Refitter(engine, logger)
    found = {
        "Builder": builder,
        "Dims": trt.Dims((1,)),
        "EngineInspector": engine.create_engine_inspector(),
        "IBuilderConfig": config,
        "ICudaEngine": engine,
        "IExecutionContext": context,
        "INetworkDefinition": network,
        "IOptimizationProfile": builder.create_optimization_profile(),
        "ISerializationConfig": engine.create_serialization_config(),
        "InterfaceInfo": trt.InterfaceInfo("a"),
        "KernelLaunchParams": trt.KernelLaunchParams(),
        "Logger": trt.Logger(),
        "OnnxParser": trt.OnnxParser(network, logger),
        "OnnxParserRefitter": trt.OnnxParserRefitter(refitter, logger),
        "Refitter": refitter,
        "DynamicPluginTensorDesc": trt.DynamicPluginTensorDesc(trt.PluginTensorDesc()),
        "PluginField": trt.PluginField("a"),
        "PluginTensorDesc": trt.PluginTensorDesc(),
        "Runtime": trt.Runtime(logger),
        "Weights": trt.Weights(),
    }
    return {**layers(trt, builder.create_network()), **found}


def table(trt):
    made = objects(trt)
    rows = []
    for kind, members in names():
        holder = made.get(kind, getattr(trt, kind, None))
        if holder is None or kind in UNUSED:
            state = "not there" if holder is None else "a name only"
            rows.append(f"| `{kind}` | {state} | | |")
            continue
        idle, refused = (set(table.get(kind, "").split()) for table in (WITHOUT_EFFECT, REFUSED))
        there = [name for name in members if hasattr(holder, name) and name not in idle | refused]
        missing = [name for name in members if not hasattr(holder, name) or name in refused]
        works = "all" if not missing and not idle & set(members) else f"{len(there)} of {len(members)}"
        rows.append(f"| `{kind}` | {works} | {_listed(idle & set(members))} | {_listed(missing)} |")
    return "\n".join(["| class | works | without effect | not there |", "|---|---|---|---|", *rows]) + "\n"


def _listed(members):
    return " ".join(f"`{name}`" for name in sorted(members))


def flags_table():
    """Of trtexec's flags, from what its help says."""
    text = subprocess.run([camshaft_cli.BINARY, "trtexec", "--help"], check=True, capture_output=True, text=True).stdout
    rows, state = ["| flag | state | |", "|---|---|---|"], ""
    for line in text.splitlines():
        if found := re.fullmatch(r"  --(\S+) +(\S.*)", line):
            name, said = (word.replace("|", "\\|") for word in found.groups())
            rows.append(f"| `--{name}` | {state} | {said} |")
        elif line.endswith(":"):
            state = {"Flags:": "works", "Accepted, without effect:": "without effect", "Refused:": "refused"}[line]
    return "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page is as it would be written")
    check = parser.parse_args().check
    sys.path.insert(0, str(ROOT / "build/release/python"))
    import camshaft.tensorrt as trt

    page = PAGE.read_text()
    written = page
    for what, text in (("classes", table(trt)), ("flags", flags_table())):
        begin = BEGIN.format(what)
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(END), re.S)
        written = pattern.sub(lambda _, made=begin + text + END: made, written)
    if check:
        return 0 if written == page else "docs/tensorrt.md is not what scripts/tensorrt_table.py writes"
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
