"""Creators of TensorRT's own plugins that Camshaft has as operators (docs/plugins.md): a network gets them from the
registry as it gets others', and the layer becomes a node of the domain TRT."""

import numpy

from camshaft.tensorrt._enums import PluginFieldType
from camshaft.tensorrt._plugin_types import IPluginCreator, IPluginV2Ext, PluginField, PluginFieldCollection

#: ONNX's domain of these operators.
DOMAIN = "TRT"

_FLOAT, _INT, _INTS = 1, 2, 7  # of ONNX's attributes

#: Fields that are lists, by their length.
_LISTS = {"image_size": 2}

#: {operator: (how many results, whole numbers among its fields, others)}
_OPERATORS = {
    "EfficientNMS_TRT": (
        4,
        "max_output_boxes background_class score_activation class_agnostic box_coding",
        "score_threshold iou_threshold",
    ),
    "EfficientNMS_ONNX_TRT": (1, "max_output_boxes_per_class center_point_box", "score_threshold iou_threshold"),
    "BatchedNMSDynamic_TRT": (
        4,
        "shareLocation backgroundLabelId numClasses topK keepTopK isNormalized clipBoxes scoreBits caffeSemantics",
        "scoreThreshold iouThreshold",
    ),
    "ROIAlign_TRT": (
        1,
        "coordinate_transformation_mode mode output_height output_width sampling_ratio",
        "spatial_scale",
    ),
    "PyramidROIAlign_TRT": (
        1,
        "pooled_size image_size fpn_scale sampling_ratio roi_coords_absolute roi_coords_swap roi_coords_plusone "
        "roi_coords_transform legacy",
        "",
    ),
    "DisentangledAttention_TRT": (1, "span", "factor"),
    "InstanceNormalization_TRT": (1, "relu", "epsilon alpha"),
    "MultiscaleDeformableAttnPlugin_TRT": (1, "", ""),
    "Clip_TRT": (1, "", "clipMin clipMax"),
    "GroupNorm": (1, "bSwish", "epsilon"),
    "GroupNormalizationPlugin": (1, "num_groups", "eps"),
    "LReLU_TRT": (1, "", "negSlope"),
    "LayerNorm": (1, "axis", "epsilon"),
    "ResizeNearest_TRT": (1, "", "scale"),
    "SeqLen2Spatial": (1, "", ""),
    "SplitGeLU": (1, "", ""),
    "fMHA_V2": (1, "", ""),
    "fMHCA": (1, "", ""),
}
_OPERATORS["BatchedNMS_TRT"] = _OPERATORS["BatchedNMSDynamic_TRT"]


class OwnPlugin(IPluginV2Ext):
    """One of them with its fields, for add_plugin_v2()."""

    def __init__(self, operator, name, attributes):
        super().__init__()
        self.plugin_type, self.name, self.num_outputs = operator, name, _OPERATORS[operator][0]
        #: What network_node() takes.
        self.attributes = attributes

    def clone(self):
        return OwnPlugin(self.plugin_type, self.name, self.attributes)


class OwnCreator(IPluginCreator):
    """Makes an OwnPlugin. Raises ValueError for fields that it does not know."""

    def __init__(self, operator):
        super().__init__()
        self.name = operator
        _, whole, others = _OPERATORS[operator]
        self.field_names = PluginFieldCollection(
            [PluginField(field, None, PluginFieldType.INT32) for field in whole.split()]
            + [PluginField(field, None, PluginFieldType.FLOAT32) for field in others.split()]
        )

    def create_plugin(self, name, field_collection, phase=None):
        known = {field.name: field.type for field in self.field_names}
        attributes = []
        for field in field_collection:
            if field.name not in known:
                raise ValueError(f"{self.name} has no field '{field.name}', but {', '.join(known) or 'none'}")
            kind = _INT if known[field.name] == PluginFieldType.INT32 else _FLOAT
            wanted = _LISTS.get(field.name, 1)
            if field.size != wanted:
                raise ValueError(f"the field '{field.name}' of {self.name} has {field.size} numbers, not {wanted}")
            numbers = [int(number) if kind == _INT else float(number) for number in numpy.ravel(field.data)]
            attributes.append((field.name, _INTS if field.name in _LISTS else kind, numbers))
        return OwnPlugin(self.name, name, attributes)

    def deserialize_plugin(self, name, data):
        raise NotImplementedError(f"engines hold {self.name} as layers: there is no plugin to make of bytes")


def own_creators():
    return {(operator, "1", ""): OwnCreator(operator) for operator in _OPERATORS}
