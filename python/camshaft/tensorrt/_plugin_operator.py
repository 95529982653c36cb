"""A creator's plugins as an operator: what the native module calls for nodes that name it."""

import base64
import contextlib
import ctypes
import json
import math
import threading
import weakref

import numpy

from camshaft._plugin import _attribute, _dim
from camshaft._values import _NUMPY
from camshaft.tensorrt._enums import (
    PluginCapabilityType,
    PluginFieldType,
    QuickPluginCreationRequest,
    TensorFormat,
    TensorRTPhase,
)
from camshaft.tensorrt._plugin_formats import Packed, choose_formats
from camshaft.tensorrt._plugin_memory import StreamMemory, aligned, memory_for_host
from camshaft.tensorrt._plugin_types import (
    DimsExprs,
    DynamicPluginTensorDesc,
    IDimensionExpr,
    IExprBuilder,
    IPluginCreatorV3One,
    IPluginCreatorV3Quick,
    IPluginResourceContext,
    IPluginV3,
    IPluginV3OneBuildV2,
    IPluginV3QuickBuild,
    PluginField,
    PluginFieldCollection,
    PluginTensorDesc,
)
from camshaft.tensorrt._values import bytes_of_element, dtype_of_name, name_of_dtype

#: Attributes of nodes that stand for plugins which a network was given: how they are made again, and how many of the
#: operands, at the end, are shapes.
STORED, SHAPES = "camshaft_stored", "camshaft_shape_inputs"
#: Of quickly deployable plugins: the QuickPluginCreationRequest by which they are made.
REQUEST = "camshaft_request"


def stored(plugin):
    """A plugin as text, as engines keep it."""
    if isinstance(plugin, IPluginV3):
        runtime = plugin.get_capability_interface(PluginCapabilityType.RUNTIME)
        fields = [
            [field.name, int(field.type), field.data.dtype.str, base64.b64encode(field.data.tobytes()).decode()]
            for field in runtime.get_fields_to_serialize() or ()
        ]
        return json.dumps(fields)
    data = plugin.serialize()
    return base64.b64encode(data.encode() if isinstance(data, str) else bytes(data or b"")).decode()


def _fields_of(text):
    fields = PluginFieldCollection()
    for name, kind, dtype, data in json.loads(text):
        fields.append(PluginField(name, numpy.frombuffer(base64.b64decode(data), dtype), PluginFieldType(kind)))
    return fields


def _fields_of_node(creator, attributes):
    """A node's attributes as fields of the types that the creator names, as TensorRT's parser gives them."""
    fields = PluginFieldCollection()
    for wanted in creator.field_names or ():
        values = attributes.get(wanted.name)
        if values is None:
            continue
        kind = wanted.type
        if values and isinstance(values[0], tuple):  # a tensor: (dtype, dims, bytes)
            values = _attribute(values, None)
        elif values and isinstance(values[0], str):
            values, kind = "\0".join(values).encode(), PluginFieldType.CHAR
        elif kind == PluginFieldType.UNKNOWN:
            whole = all(isinstance(value, int) for value in values)
            kind = PluginFieldType.INT32 if whole else PluginFieldType.FLOAT32
        fields.append(PluginField(wanted.name, values, kind))
    return fields


class PluginOperator:
    """Of a creator."""

    def __init__(self, creator):
        self._creator = creator

    def types(self):
        return [*_NUMPY, "bf16"]

    def create(self, attributes):
        creator = self._creator
        text = attributes.get(STORED)
        shapes = int(attributes.get(SHAPES, [0])[0])
        if isinstance(creator, (IPluginCreatorV3One, IPluginCreatorV3Quick)):
            # What a plugin of a network has stored is for the other phase.
            phase = TensorRTPhase.BUILD if text is None else TensorRTPhase.RUNTIME
            fields = _fields_of_node(creator, attributes) if text is None else _fields_of(text[0])
            if isinstance(creator, IPluginCreatorV3Quick):
                request = QuickPluginCreationRequest(int(attributes.get(REQUEST, [0])[0]))
                given = (creator.name, creator.plugin_namespace, fields, phase, request)
            else:
                given = (creator.name, fields, phase)
            plugin = creator.create_plugin(*given)
        elif text is None:
            plugin = creator.create_plugin(creator.name, _fields_of_node(creator, attributes))
        else:
            plugin = creator.deserialize_plugin(creator.name, base64.b64decode(text[0]))
        if plugin is None:
            raise ValueError(f"the creator of '{creator.name}' made no plugin")
        if isinstance(plugin, IPluginV3QuickBuild):
            return _OfQuick(plugin)
        return _OfV3(plugin, shapes) if isinstance(plugin, IPluginV3) else _OfV2(plugin)


def _described(dtype, dims):
    return PluginTensorDesc([d if isinstance(d, int) else -1 for d in dims], dtype)


def _dynamic(desc):
    """With sizes that are not known as 1, as nothing says more."""
    known = [1 if d < 0 else d for d in desc.dims]
    return DynamicPluginTensorDesc(desc, known, known, known)


def _dynamic_all(descs):
    return [_dynamic(desc) for desc in descs]


class _Instance:
    """A plugin of a node. Each thread runs a clone of its own, as contexts do in TensorRT."""

    def __init__(self, plugin):
        self._plugin = plugin
        self._clones = threading.local()
        # Equal nodes of a model share this instance. What is kept here is what the plugin says of types and sizes,
        # whichever node asks.
        self._formats = {}  # by the types and sizes of all tensors
        self._late = set()  # types and ranks of inputs of which only running tells sizes of results

    def infer(self, operands, count):
        if any(operand is None for operand in operands):
            raise ValueError("a plugin of TensorRT's has no operands that are left out")
        types = [dtype_of_name(dtype) for dtype, _, _ in operands]
        dims = [[_dim(d) for d in given] for _, given, _ in operands]
        results = self._results(types, dims, [values for _, _, values in operands], count)
        if len(results) != count:
            raise ValueError(f"the plugin has {len(results)} outputs, the node {count}")
        descs = [_described(dtype, given) for dtype, given in zip(types, dims)]
        outputs = [_described(dtype, [expr._dim for expr in shape]) for dtype, shape in results]
        if any(expr.is_size_tensor() for _, shape in results for expr in shape):
            self._late.add(_types_and_ranks(descs))
        self._ask_formats(descs, outputs)
        return [(name_of_dtype(dtype), [_text(expr) for expr in shape]) for dtype, shape in results]

    def _ask_formats(self, given, made):
        """The formats that the plugin takes tensors of these types and sizes in."""
        descs = [*given, *made]
        key = _types_and_sizes(descs)
        row_major_alone = _types_and_ranks(given) in self._late or bool(self._aliases(given, len(made)))
        place = choose_formats(descs, lambda place, all: self._supports(place, all, len(given)), row_major_alone)
        if place < len(descs):
            raise ValueError(
                f"the plugin does not take {descs[place].type} in "
                + (f"{TensorFormat.LINEAR} as " if row_major_alone else "any format as ")
                + (f"input {place}" if place < len(given) else f"output {place - len(given)}")
                + self._taken_instead(descs, place, len(given))
            )
        if len(self._formats) >= _MOST_SIZES:
            self._formats = {}  # what is needed is asked again, with the same answer
        formats = self._formats[key] = [desc.format for desc in descs]
        return formats

    def _taken_instead(self, descs, place, inputs):
        """What the way out is, if there is one: nothing is cast for a plugin, whose results may have an input's type."""
        asked, names = descs[place], []
        for name in [*_NUMPY, "bf16"]:
            with contextlib.suppress(TypeError):  # TensorRT has not all types
                descs[place] = PluginTensorDesc(asked.dims, dtype_of_name(name), TensorFormat.LINEAR)
                if self._supports(place, descs, inputs):
                    names.append(str(descs[place].type))
        descs[place] = asked
        return f", but {', '.join(names)}: cast it to that in the model" if names else ""

    def _take_formats(self, given, made):
        """Describes tensors in these."""
        descs = [*given, *made]
        for desc, format in zip(descs, self._formats.get(_types_and_sizes(descs)) or self._ask_formats(given, made)):
            desc.format = format

    def _described_run(self, inputs, outputs):
        given, made = _described_all(inputs), _described_all(outputs)
        self._take_formats(given, made)
        return given, made

    def count_tactics(self, inputs, outputs):
        """How many ways the plugin has to compute operands of these types and sizes."""
        return max(1, len(self._tactics(*self._described_run(inputs, outputs))))

    def run(self, inputs, outputs, tactic):
        """On operands in the host's memory. Sizes that only the plugin tells come back from it."""
        given = _described_all(inputs)
        results = self._results(
            [desc.type for desc in given],
            [list(desc.dims) for desc in given],
            [_values(*operand) for operand in inputs],
            len(outputs),
        )
        with memory_for_host() as memory:
            given_at = [memory.given(address, _bytes_of(desc)) for (address, _, _), desc in zip(inputs, given)]
            made, made_at, late = [], [], {}
            for index, (output, (dtype, shape)) in enumerate(zip(outputs, results)):
                if not isinstance(output, str):
                    made.append(_described(dtype, output[2]))
                    made_at.append(memory.made(output[0], _bytes_of(made[-1])))
                    continue
                # As large as it may be; what there is of it is told by another output.
                dims = [expr._upper[1].get_constant_value() if expr.is_size_tensor() else expr._dim for expr in shape]
                made.append(_described(dtype, dims))
                made[-1].late_axes = [axis for axis, expr in enumerate(shape) if expr.is_size_tensor()]
                made_at.append(memory.room(_bytes_of(made[-1])))
                late[index] = shape
            if not late:
                self._take_formats(given, made)
            self._compute(given, made, given_at, made_at, memory, tactic)
            memory.finish()
            found = []
            for index, shape in late.items():
                dims = [_late_size(expr, most, outputs) for expr, most in zip(shape, made[index].dims)]
                size = _bytes_of(_described(made[index].type, dims))
                found.append((index, dims, memory.bytes_at(made_at[index], size)))
            return found

    def workspace_bytes(self, inputs, outputs):
        """Of a GPU's memory, for run_on_device()."""
        given, made = self._described_run(inputs, outputs)
        return self._workspace_bytes(given, made) + Packed(given, made).bytes(aligned)

    def run_on_device(self, inputs, outputs, workspace, stream, tactic):
        """On operands in a GPU's memory, whose context is current: puts the work into the stream."""
        addresses = ([address for address, _, _ in operands] for operands in (inputs, outputs))
        memory = StreamMemory(stream, workspace)
        self._compute(*self._described_run(inputs, outputs), *addresses, memory, tactic)

    def _compute(self, given, made, given_at, made_at, memory, tactic):
        aliases = self._aliases(given, len(made))
        for output, index in aliases.items():
            # Operands are not to be written to: it gets a copy, where it leaves its result.
            memory.copy(made_at[output], given_at[index], _bytes_of(given[index]))
            given_at[index] = made_at[output]
        packed = Packed(given, made)
        packed.enter(memory, given_at, made_at)
        self._enqueue(given, made, given_at, made_at, memory, aliases, tactic)
        packed.leave(memory, made_at)

    def _aliases(self, given, outputs):
        """{output: the input whose memory it lies in}"""
        return {}

    def _tactics(self, given, made):
        """The plugin's own numbers of its tactics for these operands; none where it has only one."""
        return []

    def _enqueue(self, given, made, inputs, outputs, memory, aliases, tactic):
        plugin, workspace_bytes = self._prepared_once(given, made, tactic)
        workspace = memory.room(workspace_bytes)
        status = plugin.enqueue(given, made, inputs, outputs, workspace, memory.stream)
        if status not in (None, 0):
            raise ValueError(f"enqueue() gave {status}")

    def _prepared_once(self, given, made, tactic):
        """A clone of this thread that knows these types, shapes and tactic, and the bytes of its workspace. Equal nodes
        of a model share this instance: there are a few clones, so that each is told once."""
        key = (tactic, *_types_and_sizes((*given, *made)))
        clones = self._clones.__dict__.setdefault("of", {})  # the one that was used last is the last
        plugin, by, size = clones.pop(key, (None, None, None))
        if plugin is None:
            plugin = clones.pop(next(iter(clones)))[0] if len(clones) == _MOST_CLONES else self._cloned()
        if by is None or _TOLD.get(plugin) is not by:
            _TOLD.set(plugin, None)  # what raises leaves it as nobody knows
            by = object()
            size = self._prepare(plugin, given, made, tactic)
            _TOLD.set(plugin, by)
        clones[key] = plugin, by, size
        return plugin, size


#: Of one thread and instance.
_MOST_CLONES = 4
#: Of one instance, whose formats are remembered.
_MOST_SIZES = 256


class _Told:
    """Which call told a plugin of shapes last: one whose clone() gives itself is of several nodes and threads."""

    def __init__(self):
        self._of = {}  # by id: plugins need not be hashable

    def get(self, plugin):
        reference, by = self._of.get(id(plugin), (None, None))
        return by if reference and reference() is plugin else None

    def set(self, plugin, by):
        number = id(plugin)
        self._of[number] = weakref.ref(plugin, lambda _: self._of.pop(number, None)), by


_TOLD = _Told()


def _tactic_at(tactics, index):
    """A plugin's number of the tactic that a build took; 0 where it has none."""
    if not tactics:
        return 0
    if index >= len(tactics):
        raise ValueError(f"tactic {index} was chosen, and the plugin has {len(tactics)} now")
    return tactics[index]


def _described_all(operands):
    return [_described(dtype_of_name(dtype), dims) for _, dtype, dims in operands]


def _late_size(expr, most, outputs):
    """A size that may be one that another output tells, which lies in the host's memory now."""
    if not expr.is_size_tensor():
        return most
    address, dtype, _ = outputs[expr._upper[0]]
    size = int(_values(address, dtype, [1])[0])
    if not 0 <= size <= most:
        raise ValueError(f"output {expr._upper[0]} says {size}, which is not from 0 to {most}")
    return size


def _types_and_sizes(descs):
    return tuple((desc.type, *desc.dims) for desc in descs)


def _types_and_ranks(descs):
    return tuple((desc.type, len(desc.dims)) for desc in descs)


def _bytes_of(desc):
    return math.prod(desc.dims) * bytes_of_element(name_of_dtype(desc.type))


def _text(expr):
    return None if expr.is_size_tensor() else str(expr._dim)


def _values(address, dtype, dims):
    """The elements of a small operand of integers, which may be a shape."""
    count = math.prod(dims)
    if dtype not in ("i32", "i64") or len(dims) > 1 or count == 0 or count > 64:
        return None
    memory = (ctypes.c_uint8 * (count * bytes_of_element(dtype))).from_address(address)
    return numpy.frombuffer(memory, "int32" if dtype == "i32" else "int64").tolist()


def _exprs(dims):
    return DimsExprs([IDimensionExpr(d) for d in dims])


class _OfV3(_Instance):
    def __init__(self, plugin, shapes):
        super().__init__(plugin)
        self._build = plugin.get_capability_interface(PluginCapabilityType.BUILD)
        self._shapes = shapes
        self._configuring = threading.Lock()  # what it is asked then is of the shapes that it was told last

    def _results(self, types, dims, values, count):
        data = len(types) - self._shapes
        known = values[data:]
        if any(value is None for value in known):
            raise ValueError("a shape that a plugin takes is not known before running")
        shapes = self._build.get_output_shapes(
            [_exprs(given) for given in dims[:data]], [_exprs(value) for value in known], IExprBuilder()
        )
        return list(zip(self._build.get_output_data_types(types), shapes))

    def _supports(self, place, descs, inputs):
        return self._build.supports_format_combination(place, _dynamic_all(descs), inputs)

    def _aliases(self, given, outputs):
        if not isinstance(self._build, IPluginV3OneBuildV2):
            return {}
        found = {output: self._build.get_aliased_input(output) for output in range(outputs)}
        return {output: index for output, index in found.items() if index >= 0}

    def _cloned(self):
        plugin = self._plugin.clone()
        runtime = plugin.get_capability_interface(PluginCapabilityType.RUNTIME)
        return runtime.attach_to_context(IPluginResourceContext()) or runtime

    def _configured(self, given, made):
        """Of these shapes: (bytes of the workspace, its own numbers of its tactics)."""
        inputs, outputs = _dynamic_all(given), _dynamic_all(made)
        with self._configuring:
            _TOLD.set(self._build, None)  # which may be what runs, too
            self._build.configure_plugin(inputs, outputs)
            size = int(self._build.get_workspace_size(inputs, outputs) or 0)
            tactics = self._build.get_valid_tactics()
            return size, [] if tactics is None else list(tactics)

    def _workspace_bytes(self, given, made):
        return self._configured(given, made)[0]

    def _tactics(self, given, made):
        return self._configured(given, made)[1]

    def _prepare(self, plugin, given, made, tactic):
        size, tactics = self._configured(given, made)
        plugin.set_tactic(_tactic_at(tactics, tactic))
        plugin.on_shape_change(given, made)
        return size


class _OfQuick(_Instance):
    def _results(self, types, dims, values, count):
        return self._plugin.results(types, dims)

    def _supports(self, place, descs, inputs):
        return self._plugin.supports(place, _dynamic_all(descs), inputs)

    def compile(self, operands, count):
        """Kernels for GPUs, in the native module's terms; None for a plugin without."""
        dims = [[_dim(d) for d in given] for _, given, _ in operands]
        given = [_described(dtype_of_name(dtype), sizes) for (dtype, _, _), sizes in zip(operands, dims)]
        made = self._plugin.compiled(given, dims)
        if made is None:
            return None
        has_function, aliases, tactics = made
        return has_function, list(aliases.items()), tactics

    def _aliases(self, given, outputs):
        return self._plugin.aliased_inputs([desc.type for desc in given], [list(desc.dims) for desc in given])

    def workspace_bytes(self, inputs, outputs):
        return 0

    def _tactics(self, given, made):
        return self._plugin.tactics_of_function(_dynamic_all([*given, *made]), len(given))

    def _enqueue(self, given, made, inputs, outputs, memory, aliases, tactic):
        chosen = _tactic_at(self._tactics(given, made), tactic)
        self._plugin.compute(given, made, inputs, outputs, aliases, memory, chosen)


class _OfV2(_Instance):
    def _results(self, types, dims, values, count):
        plugin, inputs = self._plugin, [_exprs(given) for given in dims]
        if count != plugin.num_outputs:
            raise ValueError(f"the plugin has {plugin.num_outputs} outputs, the node {count}")
        return [
            (plugin.get_output_datatype(o, types), plugin.get_output_dimensions(o, inputs, IExprBuilder()))
            for o in range(count)
        ]

    def _supports(self, place, descs, inputs):
        return self._plugin.supports_format_combination(place, descs, inputs)

    def _cloned(self):
        plugin = self._plugin.clone()
        plugin.initialize()
        return plugin

    def _prepare(self, plugin, given, made, tactic):
        plugin.configure_plugin(_dynamic_all(given), _dynamic_all(made))
        return int(plugin.get_workspace_size(given, made) or 0)

    def _workspace_bytes(self, given, made):
        return self._prepared_once(given, made, 0)[1]
