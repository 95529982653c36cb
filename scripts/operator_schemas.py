#!/usr/bin/env python3
"""Writes src/onnx/operator_schemas.inc: what operators' inputs, outputs and attributes are called, and their types.

    scripts/operator_schemas.py [FILE]

The standard's come from the Python package onnx, those of ONNX Runtime's own that Camshaft reads from there. A version
of an operator has a line where it differs in these facts from the one before it."""

import re
import sys
from pathlib import Path

import onnx.defs
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

SOURCES = Path(__file__).parents[1] / "src/onnx"
# As AttributeProto.AttributeType numbers them; the words are attribute_type_name()'s in operator_schema.cpp.
TYPES = dict(zip("FLOAT INT STRING TENSOR GRAPH FLOATS INTS STRINGS TENSORS GRAPHS".split(), range(1, 11)))
TYPES |= {"SPARSE_TENSOR": 11, "TYPE_PROTO": 13}
# TensorRT's plugins that src/onnx/ops_tensorrt.cpp reads, by their documentation.
_DETECTIONS = "num_detections:tensor(int32) detection_boxes:T detection_scores:T detection_classes:T1"
_BATCHED_NMS = (
    "boxes:T scores:T",
    "num_detections:tensor(int32) nmsed_boxes:T nmsed_scores:T nmsed_classes:T1",
    "backgroundLabelId:2 caffeSemantics:2 clipBoxes:2 iouThreshold:1 isNormalized:2 keepTopK:2! numClasses:2 "
    "plugin_namespace:3 plugin_version:3 scoreBits:2 scoreThreshold:1 shareLocation:2 topK:2!",
)
TENSORRT = {
    "BatchedNMSDynamic_TRT": _BATCHED_NMS,
    "BatchedNMS_TRT": _BATCHED_NMS,
    "Clip_TRT": ("input:T", "output:T", "clipMax:1! clipMin:1! plugin_namespace:3 plugin_version:3"),
    "DistCollective": ("input:T", "output:T", "collective_operation:3! group_size:2! groups:7 reduce_op:3 root:2"),
    "DisentangledAttention_TRT": (
        "data0:T data1:T data2:T",
        "result:T",
        "factor:1! plugin_namespace:3 plugin_version:3 span:2!",
    ),
    "EfficientNMS_ONNX_TRT": (
        "boxes:T scores:T",
        "selected_indices:tensor(int32)",
        "center_point_box:2 iou_threshold:1 max_output_boxes_per_class:2! plugin_namespace:3 plugin_version:3 "
        "score_threshold:1",
    ),
    "EfficientNMS_TRT": (
        "boxes:T scores:T anchors:T?",
        _DETECTIONS,
        "background_class:2 box_coding:2 class_agnostic:2 iou_threshold:1 max_output_boxes:2 plugin_namespace:3 "
        "plugin_version:3 score_activation:2 score_threshold:1",
    ),
    "GroupNorm": (
        "input:T gamma:T1 beta:T1",
        "output:T",
        "bSwish:2 epsilon:1 plugin_namespace:3 plugin_version:3",
    ),
    "GroupNormalizationPlugin": (
        "input:T scale:T1 bias:T1",
        "output:T",
        "eps:1 num_groups:2! plugin_namespace:3 plugin_version:3",
    ),
    "InstanceNormalization_TRT": (
        "input:T scale:T B:T",
        "output:T",
        "alpha:1 epsilon:1 plugin_namespace:3 plugin_version:3 relu:2",
    ),
    "LReLU_TRT": ("input:T", "output:T", "negSlope:1! plugin_namespace:3 plugin_version:3"),
    "LayerNorm": (
        "input:T gamma:T1 beta:T1",
        "output:T",
        "axis:2 epsilon:1 plugin_namespace:3 plugin_version:3",
    ),
    "MultiscaleDeformableAttnPlugin_TRT": (
        "value:T spatial_shapes:T1 level_start_index:T1 sampling_locations:T attention_weights:T",
        "output:T",
        "plugin_namespace:3 plugin_version:3",
    ),
    "PyramidROIAlign_TRT": (
        "rois:T1 feature_map_0:T feature_map_1:T feature_map_2:T feature_map_3:T",
        "output:T",
        "fpn_scale:2 image_size:7 legacy:2 plugin_namespace:3 plugin_version:3 pooled_size:2 roi_coords_absolute:2 "
        "roi_coords_plusone:2 roi_coords_swap:2 roi_coords_transform:2 sampling_ratio:2",
    ),
    "ROIAlign_TRT": (
        "X:T rois:T batch_indices:T1",
        "Y:T",
        "coordinate_transformation_mode:2 mode:2 output_height:2 output_width:2 plugin_namespace:3 plugin_version:3 "
        "sampling_ratio:2 spatial_scale:1",
    ),
    "ResizeNearest_TRT": ("input:T", "output:T", "plugin_namespace:3 plugin_version:3 scale:1!"),
    "SeqLen2Spatial": (
        "input:T bias:T1 residual:T shape_of:T",
        "output:T",
        "plugin_namespace:3 plugin_version:3",
    ),
    "SplitGeLU": ("input:T", "output:T", "plugin_namespace:3 plugin_version:3"),
    "fMHA_V2": ("qkv:T", "output:T", "plugin_namespace:3 plugin_version:3"),
    "fMHCA": ("q:T kv:T", "output:T", "plugin_namespace:3 plugin_version:3"),
}
# MMCV's and MMDeploy's that src/onnx/ops_mmcv.cpp reads, by their documentation, with the older names of attributes.
_DEFORMED = "dilation:7 padding:7 stride:7"
_NORMALIZED = ("input:T scale:T B:T", "output:T", "epsilon:1")
_SUPPRESSED = (
    "boxes:T scores:T",
    "dets:T labels:tensor(int32) index:tensor(int32)?",
    "background_label_id:2 clipBoxes:2 clip_boxes:2 iouThreshold:1 iou_threshold:1 isNormalized:2 is_normalized:2 "
    "keepTopK:2 keep_topk:2 num_classes:2 return_index:2 scoreThreshold:1 score_threshold:1 topK:2 topk:2",
)
MMCV = {
    "GatherTopk": ("data:T indices:T1", "output:T", ""),
    "GridPriorsTRT": ("base_anchors:T height:T1 width:T1", "output:T", "stride_h:2 stride_w:2"),
    "MMCVDeformConv2d": (
        "input:T offset:T weight:T",
        "output:T",
        f"bias:2 deform_groups:2 deformable_group:2 {_DEFORMED} group:2 groups:2 im2col_step:2",
    ),
    "MMCVInstanceNormalization": _NORMALIZED,
    "MMCVModulatedDeformConv2d": (
        "input:T offset:T mask:T weight:T bias:T?",
        "output:T",
        f"deform_groups:2 deformable_group:2 {_DEFORMED} group:2 groups:2",
    ),
    "MMCVMultiLevelRoiAlign": (
        "rois:T feature_maps:T*",
        "output:T",
        "aligned:2 featmap_strides:6 finest_scale:2 output_height:2 output_width:2 pool_mode:2 roi_scale_factor:1 "
        "sampling_ratio:2",
    ),
    "MMCVMultiLevelRotatedRoiAlign": (
        "rois:T feature_maps:T*",
        "output:T",
        "aligned:2 clockwise:2 featmap_strides:6 finest_scale:2 output_height:2 output_width:2 roi_scale_factor:1 "
        "sampling_ratio:2",
    ),
    "MMCVMultiScaleDeformableAttention": (
        "value:T value_spatial_shapes:T1 value_level_start_index:T1 sampling_locations:T attention_weights:T",
        "output:T",
        "im2col_step:2",
    ),
    "MMCVRoiAlign": (
        "input:T rois:T",
        "output:T",
        "aligned:2 mode:3 output_height:2 output_width:2 sampling_ratio:2 spatial_scale:1",
    ),
    "ScaledDotProductAttentionTRT": ("query:T key:T value:T mask:T?", "output:T attention:T?", ""),
    "TRTBatchedBEVNMS": _SUPPRESSED,
    "TRTBatchedNMS": _SUPPRESSED,
    "TRTBatchedRotatedNMS": _SUPPRESSED,
    "TRTBicubicInterpolate": ("input:T", "output:T", "align_corners:2 scale_factor:6!"),
    "TRTInstanceNormalization": _NORMALIZED,
    "grid_sampler": ("input:T grid:T", "output:T", "align_corners:2 interpolation_mode:2 padding_mode:2"),
}
# Our own, of what nobody else has an operator for.
CAMSHAFT = {
    "AllGather": ("x:T", "y:T", "axis:2 group_size:2!"),
    "AllReduce": ("x:T", "y:T", "group_size:2! reduce_op:3"),
    "AllToAll": ("x:T", "y:T", "axis:2 group_size:2!"),
    "Broadcast": ("x:T", "y:T", "group_size:2! root:2"),
    "GatherMatMul": ("X:T indices:S W:T1", "Y:T", ""),
    "PagedAttention": (
        "query:T key:T value:T key_cache:T_CACHE value_cache:T_CACHE key_scales:tensor(float)? "
        "value_scales:tensor(float)? cumulative_sequence_length:S past_seqlens:S block_table:S "
        "relative_bias:tensor(float)?",
        "output:T key_cache_out:T_CACHE value_cache_out:T_CACHE key_scales_out:tensor(float)? "
        "value_scales_out:tensor(float)?",
        "is_causal:2 kv_num_heads:2! local_window_size:2 num_heads:2! scale:1 softcap:1",
    ),
    "PagedCrossAttention": (
        "query:T key_cache:T_CACHE value_cache:T_CACHE cumulative_sequence_length:S key_seqlens:S block_table:S "
        "key_scales:tensor(float)? value_scales:tensor(float)? relative_bias:tensor(float)?",
        "output:T",
        "kv_num_heads:2! num_heads:2! scale:1 softcap:1",
    ),
    "PagedQuantize": (
        "cache:T_CACHE scales:tensor(float) rows:T slots:S",
        "cache_out:T_CACHE scales_out:tensor(float)",
        "",
    ),
    "PagedStore": ("cache:T_CACHE rows:T slots:S", "cache_out:T_CACHE", ""),
    "ReduceScatter": ("x:T", "y:T", "axis:2 group_size:2! reduce_op:3"),
}
MARKS = {"Single": "", "Optional": "?", "Variadic": "*"}


def name_of(value):
    return str(value).rpartition(".")[2]


def parameters(listed):
    typed = [(p, p.type_str if hasattr(p, "type_str") else p.typeStr) for p in listed]
    return " ".join(f"{p.name}:{kind.replace(' ', '')}{MARKS[name_of(p.option)]}" for p, kind in typed)


def attributes(schema):
    return " ".join(
        f"{name}:{TYPES[name_of(a.type)]}{'!' if a.required else ''}" for name, a in sorted(schema.attributes.items())
    )


def microsoft_operators():
    texts = [path.read_text() for path in SOURCES.glob("ops_*.cpp")]
    return {name for text in texts for name in re.findall(r'\{\s*"(\w+)",', text)}


def schemas():
    standard = [s for s in onnx.defs.get_all_schemas_with_history() if "training" not in s.domain]
    names = microsoft_operators()
    known = {(s.domain, s.name) for s in standard}
    others = [s for s in runtime.get_all_operator_schema() if s.domain in ("", "com.microsoft") and s.name in names]
    # The others' names are not TensorRT's alone: com.microsoft has a GroupNorm of its own.
    of_tensorrt = {name for name in TENSORRT if name.endswith("_TRT") or name == "DistCollective"}
    others = [s for s in others if (s.domain, s.name) not in known and s.name not in of_tensorrt]
    return sorted(standard + others, key=lambda s: (s.domain, s.name, s.since_version))


def lines():
    yield "// Made by scripts/operator_schemas.py: domain, operator, since, inputs, outputs, attributes."
    last, domain = None, ""
    for s in schemas():
        if domain == "" < s.domain:
            for domain, operators in (("TRT", TENSORRT), ("camshaft", CAMSHAFT), ("mmcv", MMCV), ("mmdeploy", MMCV)):
                for name, facts in operators.items():
                    quoted = ", ".join(f'"{text}"' for text in facts)
                    yield f'{{"{domain}", "{name}", 1, {quoted}}},'
        domain = s.domain
        if s.deprecated:
            continue
        facts = (s.domain, s.name, parameters(s.inputs), parameters(s.outputs), attributes(s), s.min_output)
        if facts != last:
            quoted = ", ".join(f'"{text}"' for text in facts[2:5])
            yield f'{{"{s.domain}", "{s.name}", {s.since_version}, {quoted}}},'
        last = facts


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCES / "operator_schemas.inc"
    target.write_text("\n".join(lines()) + "\n")
