"""What TensorRT's plugins are written with: fields, descriptions of tensors, expressions of sizes, and the classes that
plugins and their creators derive from."""

import numpy

from camshaft._plugin import Dim
from camshaft.tensorrt._enums import APILanguage, DimensionOperation, PluginFieldType, TensorFormat
from camshaft.tensorrt._values import Dims

_FIELD_TYPES = {
    PluginFieldType.FLOAT16: "float16",
    PluginFieldType.FLOAT32: "float32",
    PluginFieldType.FLOAT64: "float64",
    PluginFieldType.INT8: "int8",
    PluginFieldType.INT16: "int16",
    PluginFieldType.INT32: "int32",
    PluginFieldType.CHAR: "int8",
    PluginFieldType.DIMS: "int32",
    PluginFieldType.INT64: "int64",
}


class PluginField:
    """A parameter of a plugin: its name and numbers, as an array."""

    def __init__(self, name="", data=None, type=PluginFieldType.UNKNOWN):
        self.name, self.type = name, PluginFieldType(type)
        self.data = data

    @property
    def data(self):
        return self._data

    @data.setter
    def data(self, data):
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, (bytes, bytearray)):
            data = numpy.frombuffer(bytes(data), numpy.int8)
        kind = _FIELD_TYPES.get(self.type)
        self._data = numpy.array([] if data is None else data, kind)

    @property
    def size(self):
        return int(self._data.size)

    def __repr__(self):
        return f"<PluginField '{self.name}' {self.type} {self._data.tolist()}>"


class PluginFieldCollection(list):
    """The fields of a plugin."""

    def __init__(self, fields=()):
        super().__init__(fields)


PluginFieldCollection_ = PluginFieldCollection


class PluginTensorDesc:
    """A tensor as a plugin gets it: dense, in the order of its format."""

    def __init__(self, dims=(), type=None, format=TensorFormat.LINEAR, scale=1.0):
        self.dims, self.type, self.format, self.scale = Dims(dims), type, format, scale


class DynamicPluginTensorDesc:
    """A tensor whose sizes may change: `desc` has -1 there."""

    def __init__(self, desc, min=None, opt=None, max=None):
        self.desc = desc
        self.min, self.opt, self.max = (desc.dims if given is None else Dims(given) for given in (min, opt, max))


class IDimensionExpr:
    """A size: a number, or an expression of sizes that the network leaves open."""

    def __init__(self, dim, upper=None):
        self._dim, self._upper = dim, upper  # upper: of one that only running tells

    def is_constant(self):
        return isinstance(self._dim, int)

    def get_constant_value(self):
        if not self.is_constant():
            raise ValueError(f"the size {self._dim} is not known before running")
        return self._dim

    def is_size_tensor(self):
        return self._upper is not None

    def __repr__(self):
        return f"<IDimensionExpr {self._dim}>"


class IExprBuilder:
    """Makes sizes."""

    def constant(self, value):
        return IDimensionExpr(int(value))

    def declare_size_tensor(self, output_index, opt, upper):
        """A size that the plugin writes into its output of that number, a scalar."""
        return IDimensionExpr(None, (output_index, upper))

    def operation(self, op, first, second):
        if first.is_size_tensor() or second.is_size_tensor():
            raise NotImplementedError("a size that only running tells stands alone: no other is computed of it")
        op, a, b = DimensionOperation(op), first._dim, second._dim
        if isinstance(a, int) and isinstance(b, int):
            return IDimensionExpr(_COMPUTE[op](a, b))
        if op in (DimensionOperation.EQUAL, DimensionOperation.LESS):
            raise NotImplementedError(f"{op} of the sizes {a} and {b}, which are not known before running")
        return IDimensionExpr(_COMPOSE[op](Dim(a), Dim(b)))


_COMPUTE = {
    DimensionOperation.SUM: lambda a, b: a + b,
    DimensionOperation.PROD: lambda a, b: a * b,
    DimensionOperation.MAX: max,
    DimensionOperation.MIN: min,
    DimensionOperation.SUB: lambda a, b: a - b,
    DimensionOperation.EQUAL: lambda a, b: int(a == b),
    DimensionOperation.LESS: lambda a, b: int(a < b),
    DimensionOperation.FLOOR_DIV: lambda a, b: a // b,
    DimensionOperation.CEIL_DIV: lambda a, b: -(-a // b),
}
_COMPOSE = {
    DimensionOperation.SUM: lambda a, b: a + b,
    DimensionOperation.PROD: lambda a, b: a * b,
    DimensionOperation.MAX: Dim.max,
    DimensionOperation.MIN: Dim.min,
    DimensionOperation.SUB: lambda a, b: a - b,
    DimensionOperation.FLOOR_DIV: lambda a, b: a // b,
    DimensionOperation.CEIL_DIV: lambda a, b: Dim(f"ceil_div({a}, {b})"),
}


class DimsExprs(list):
    """Sizes of a tensor, each an IDimensionExpr; of a number: so many that are set later."""

    def __init__(self, given=()):
        super().__init__([None] * given if isinstance(given, int) else given)


# ---- Classes to derive from ----


class InterfaceInfo:
    """Which version of which class of TensorRT's another one is derived from."""

    def __init__(self, kind, major=1, minor=0):
        self.kind, self.major, self.minor = kind, major, minor


class IVersionedInterface:
    """What all of them are."""

    api_language = APILanguage.PYTHON

    def __init__(self):
        pass

    @property
    def interface_info(self):
        """Of the class of TensorRT's next above."""
        ours = next(kind for kind in type(self).__mro__ if kind.__module__ == __name__)
        return InterfaceInfo(ours.__name__)


class IPluginCapability(IVersionedInterface):
    """A part of what an IPluginV3 can do."""


class IPluginV3(IVersionedInterface):
    """A plugin: its parts say who it is, what it makes of shapes and types, and how it runs."""

    def get_capability_interface(self, type):
        return self

    def clone(self):
        raise NotImplementedError("an IPluginV3 needs clone()")

    def destroy(self):
        pass


class IPluginV3OneCore(IPluginCapability):
    plugin_name, plugin_version, plugin_namespace = "", "1", ""


class IPluginV3OneBuild(IPluginCapability):
    DEFAULT_FORMAT_COMBINATION_LIMIT = 100
    num_outputs, metadata_string, timing_cache_id = 1, "", ""
    format_combination_limit = DEFAULT_FORMAT_COMBINATION_LIMIT

    def configure_plugin(self, in_, out):
        pass

    def get_workspace_size(self, in_, out):
        return 0

    def get_valid_tactics(self):
        return []


class IPluginV3OneBuildV2(IPluginV3OneBuild):
    """The same with outputs that lie in an input's memory, which the plugin changes in place."""

    def get_aliased_input(self, output_index):
        return -1


class IPluginV3OneRuntime(IPluginCapability):
    def on_shape_change(self, in_, out):
        pass

    def set_tactic(self, tactic):
        pass

    def get_fields_to_serialize(self):
        return PluginFieldCollection()

    def attach_to_context(self, resource_context):
        return self.clone()


class IPluginV2(IVersionedInterface):
    plugin_type, plugin_version, plugin_namespace, num_outputs, tensorrt_version = "", "1", "", 1, 10

    def initialize(self):
        return 0

    def terminate(self):
        pass

    def destroy(self):
        pass

    def serialize(self):
        return b""

    def clone(self):
        raise NotImplementedError("a plugin needs clone()")


class IPluginV2Ext(IPluginV2):
    def attach_to_context(self, cudnn, cublas, allocator):
        pass

    def detach_from_context(self):
        pass


class IPluginV2DynamicExt(IPluginV2Ext):
    """A plugin of TensorRT 8: one class for all, with get_output_dimensions(), get_output_datatype(),
    supports_format_combination() and enqueue()."""

    FORMAT_COMBINATION_LIMIT = 100

    def configure_plugin(self, in_, out):
        pass

    def get_workspace_size(self, in_, out):
        return 0


IPluginV2DynamicExtBase = IPluginV2Ext


class IPluginCreatorInterface(IVersionedInterface):
    name, plugin_version, plugin_namespace = "", "1", ""
    field_names = PluginFieldCollection()


class IPluginCreator(IPluginCreatorInterface):
    """Makes plugins of TensorRT 8: create_plugin(name, field_collection), deserialize_plugin(name, data)."""

    tensorrt_version = 10


class IPluginCreatorV3One(IPluginCreatorInterface):
    """Makes plugins: create_plugin(name, field_collection, phase)."""


# ---- Of quickly deployable plugins (tensorrt.plugin), whose decorators derive from these ----


class IPluginV3QuickCore(IPluginCapability):
    plugin_name, plugin_version, plugin_namespace = "", "1", ""


class IPluginV3QuickBuild(IPluginCapability):
    """What it makes of shapes and types."""


class IPluginV3QuickRuntime(IPluginCapability):
    """How it runs."""


class IPluginCreatorV3Quick(IPluginCreatorInterface):
    """Makes plugins: create_plugin(name, namespace, field_collection, phase, request)."""


# ---- What plugins share ----


class IPluginResource(IVersionedInterface):
    """What plugins share: the registry keeps a clone() as long as one of them holds it, and then calls its release()."""

    def clone(self):
        raise NotImplementedError("a plugin resource needs clone()")

    def release(self):
        pass


class IPluginResourceContext:
    """What attach_to_context() gets: no allocator, as plugins run in memory of the host."""

    gpu_allocator = None
    error_recorder = None
