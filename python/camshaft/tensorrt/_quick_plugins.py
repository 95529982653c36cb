"""Quickly deployable plugins: an operator of a function that describes it and one that computes it."""

import hashlib
import inspect
import types
import typing

import numpy
import numpy.typing

from camshaft.tensorrt._cuda import device
from camshaft.tensorrt._enums import (
    NetworkDefinitionCreationFlag,
    PluginFieldType,
    QuickPluginCreationRequest,
    TensorFormat,
    TensorRTPhase,
)
from camshaft.tensorrt._network import ITensor
from camshaft.tensorrt._plugin_registry import get_plugin_registry
from camshaft.tensorrt._plugin_types import (
    DynamicPluginTensorDesc,
    IDimensionExpr,
    IExprBuilder,
    IPluginCreatorV3Quick,
    IPluginV3,
    IPluginV3QuickBuild,
    IPluginV3QuickCore,
    IPluginV3QuickRuntime,
    PluginField,
    PluginFieldCollection,
    PluginTensorDesc,
)
from camshaft.tensorrt._quick_kernels import compiled_tactic, set_known
from camshaft.tensorrt._quick_tensors import Tensor, TensorDesc, input_desc, tuned_desc

_PLAIN = {
    int: PluginFieldType.INT64,
    float: PluginFieldType.FLOAT64,
    bool: PluginFieldType.INT8,
    str: PluginFieldType.CHAR,
    bytes: PluginFieldType.UNKNOWN,
}
_ARRAYS = {
    "int8": PluginFieldType.INT8,
    "int16": PluginFieldType.INT16,
    "int32": PluginFieldType.INT32,
    "int64": PluginFieldType.INT64,
    "float16": PluginFieldType.FLOAT16,
    "float32": PluginFieldType.FLOAT32,
    "float64": PluginFieldType.FLOAT64,
    "bool": PluginFieldType.INT8,
}
#: What functions get beside tensors and attributes.
_OUTPUTS, _STREAM, _TACTIC = "outputs", "stream", "tactic"


class _Namespace(types.ModuleType):
    """Plugins of one namespace, or namespaces."""

    def __getattr__(self, name):
        raise AttributeError(f"{self.__name__} has no '{name}': register it with tensorrt.plugin.register()")


op = _Namespace("tensorrt.plugin.op")
_definitions = {}  # by "namespace::name"


def _hints_of(function):
    try:
        return typing.get_type_hints(function)
    except NameError:  # of what is imported where it is checked alone
        return dict(getattr(function, "__annotations__", {}))


def _array_type(hint):
    """The NumPy type that an annotation of numpy.typing.NDArray names; None for others."""
    if typing.get_origin(hint) is numpy.typing.NDArray:  # from NumPy 2.5 on, which keeps the alias
        return numpy.dtype(typing.get_args(hint)[0])
    if typing.get_origin(hint) is not numpy.ndarray:
        return None
    return numpy.dtype(typing.get_args(typing.get_args(hint)[1])[0])


class PluginDef:
    """A registered plugin. Called with tensors of a network and attributes it gives what add_plugin() takes."""

    def __init__(self, plugin_id, function):
        self.plugin_id, self.register_func = plugin_id, function
        self.impl_func = self.aot_impl_func = self.autotune_func = None
        self._arguments = {}  # of the functions above, by their names
        hints, self._tensors, self._attributes = _hints_of(function), [], {}
        for parameter in inspect.signature(function).parameters.values():
            self._take(parameter, hints.get(parameter.name))
        self.num_outputs = self._count_outputs(hints.get("return"))
        self.creator = None

    def _take(self, parameter, hint):
        name = parameter.name
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(f"plugin '{self.plugin_id}': argument '{name}' has no name of its own")
        if parameter.default is not parameter.empty:
            raise ValueError(f"plugin '{self.plugin_id}': argument '{name}' has a default value, and cannot have one")
        if hint is TensorDesc:
            if self._attributes:
                raise ValueError(f"plugin '{self.plugin_id}': the tensor '{name}' comes behind an attribute")
            self._tensors.append(name)
        elif hint in _PLAIN or (_array_type(hint) is not None and str(_array_type(hint)) in _ARRAYS):
            if name in (_OUTPUTS, _STREAM, _TACTIC):
                raise ValueError(f"plugin '{self.plugin_id}': an attribute cannot be called '{name}'")
            self._attributes[name] = hint
        else:
            raise ValueError(
                f"plugin '{self.plugin_id}': argument '{name}' needs an annotation: TensorDesc, "
                f"{', '.join(kind.__name__ for kind in _PLAIN)} or numpy.typing.NDArray[…], not {hint}"
            )

    def _count_outputs(self, hint):
        of = typing.get_args(hint) if typing.get_origin(hint) is tuple else (hint,)
        if not of or any(not (isinstance(kind, type) and issubclass(kind, TensorDesc)) for kind in of):
            raise ValueError(f"plugin '{self.plugin_id}': it returns TensorDesc or Tuple[TensorDesc, …], not {hint}")
        return len(of)

    def take_function(self, role, function, behind):
        """One of impl, aot_impl and autotune: its arguments are the tensors, attributes as far as it wants them, and
        `behind`, the last of which it may leave out where that is the tactic."""
        names = list(inspect.signature(function).parameters)
        count = len(self._tensors)
        attributes = [name for name in names[count:] if name not in (_OUTPUTS, _STREAM, _TACTIC)]
        fitting = [self._tensors + attributes + behind]
        if behind[-1] == _TACTIC:
            fitting.append(fitting[0][:-1])
        known = [name for name in self._attributes if name in attributes]
        if names not in fitting or attributes != known:
            raise ValueError(
                f"plugin '{self.plugin_id}': the {role} function has the arguments {', '.join(names)}; these are the "
                f"tensors {', '.join(self._tensors)}, some of the attributes {', '.join(self._attributes) or '(none)'} in "
                f"their order, and {', '.join(behind)}"
            )
        setattr(self, f"{role}_func", function)
        self._arguments[role] = (attributes, _TACTIC in names)

    def attributes_for(self, role, values):
        return [values[name] for name in self._arguments[role][0]]

    def expects_tactic(self, role):
        return self._arguments[role][1]

    # ---- What engines know of it ----

    def source(self):
        """Of its functions: what engines are told apart by."""
        texts = []
        ahead = [] if self.aot_impl_func is None else [self.aot_impl_func]
        for function in (self.register_func, self.impl_func, self.autotune_func, *ahead):
            try:
                texts.append("" if function is None else inspect.getsource(function))
            except (OSError, TypeError):  # of a program without a file
                texts.append(repr(function.__code__.co_code))
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]

    def enter(self):
        """Into the registry, once it can compute."""
        if self.creator is None:
            creator = _Creator(self)
            if not get_plugin_registry()._enter(creator, self.source()):
                raise ValueError(f"there is another plugin '{self.plugin_id}' already, registered with other code")
            self.creator = creator

    def fields_of(self, values):
        fields = []
        for name, hint in self._attributes.items():
            value = values[name]
            if _array_type(hint) is not None:
                array = numpy.asarray(value)
                fields.append(PluginField(name, array.astype(_array_type(hint)), _ARRAYS[str(_array_type(hint))]))
            elif hint in (str, bytes):
                data = value.encode() if isinstance(value, str) else value
                fields.append(PluginField(name, data, PluginFieldType.CHAR))
            else:
                fields.append(PluginField(name, [hint(value)], _PLAIN[hint]))
        return PluginFieldCollection(fields)

    def empty_fields(self):
        """As a creator lists them."""
        made = []
        for name, hint in self._attributes.items():
            array = _array_type(hint)
            made.append(PluginField(name, None, _PLAIN[hint] if array is None else _ARRAYS[str(array)]))
        return PluginFieldCollection(made)

    def values_of(self, fields):
        """Attributes of fields; raises ValueError where one is missing."""
        found = {field.name: field.data for field in fields}
        missing = [name for name in self._attributes if name not in found]
        if missing:
            raise ValueError(f"plugin '{self.plugin_id}' needs the attribute '{missing[0]}'")
        values = {}
        for name, hint in self._attributes.items():
            data, array = found[name], _array_type(hint)
            if array is not None:
                values[name] = numpy.atleast_1d(data).astype(array)
            elif hint in (str, bytes):
                raw = numpy.asarray(data, numpy.int8).tobytes()
                values[name] = raw.decode() if hint is str else raw
            else:
                values[name] = hint(numpy.asarray(data).reshape(-1)[0])
        return values

    def __call__(self, *inputs, **attributes):
        for tensor in inputs:
            if not isinstance(tensor, ITensor):
                raise ValueError(f"plugin '{self.plugin_id}': an input is an ITensor, not {tensor!r}")
        if len(inputs) != len(self._tensors) or list(attributes) != list(self._attributes):
            raise ValueError(
                f"plugin '{self.plugin_id}' takes the tensors {', '.join(self._tensors)} and the attributes "
                f"{', '.join(self._attributes) or '(none)'} in this order, not {len(inputs)} tensors and "
                f"{', '.join(attributes) or 'none'}"
            )
        for name, value in attributes.items():
            self._check_type(name, value)

        def make(request=None):
            """(inputs, shape inputs, plugin) for a network that wants plugins in this way."""
            if self.creator is None:
                raise ValueError(
                    f"plugin '{self.plugin_id}' has no function to compute it: @tensorrt.plugin.impl or aot_impl gives one"
                )
            fields = self.fields_of(attributes)
            name, namespace = self.creator.name, self.creator.plugin_namespace
            return list(inputs), [], self.creator.create_plugin(name, namespace, fields, TensorRTPhase.BUILD, request)

        return make

    def _check_type(self, name, value):
        hint = self._attributes[name]
        array = _array_type(hint)
        if array is None:
            fits = type(value) is hint
        else:
            fits = isinstance(value, numpy.ndarray) and value.dtype == array
        if not fits:
            wanted = hint.__name__ if array is None else f"NDArray[{array}]"
            raise ValueError(f"plugin '{self.plugin_id}': the attribute '{name}' is of type {wanted}, not {value!r}")


class _Creator(IPluginCreatorV3Quick):
    """Makes a definition's plugins."""

    def __init__(self, definition):
        super().__init__()
        self.definition = definition
        self.plugin_namespace, self.name = definition.plugin_id.split("::")
        self.plugin_version = "1"
        self.field_names = definition.empty_fields()

    def create_plugin(self, name, namespace, fields, phase, request=None):
        definition = self.definition
        for strict, function, role in (
            (QuickPluginCreationRequest.STRICT_AOT, definition.aot_impl_func, "aot_impl"),
            (QuickPluginCreationRequest.STRICT_JIT, definition.impl_func, "impl"),
        ):
            if request == strict and function is None:
                raise ValueError(
                    f"plugin '{definition.plugin_id}' has no {role} function, which {strict.name} asks for: "
                    f"@tensorrt.plugin.{role} gives one"
                )
        return _QuickPlugin(definition, definition.values_of(fields), request)


class _QuickPlugin(IPluginV3, IPluginV3QuickCore, IPluginV3QuickBuild, IPluginV3QuickRuntime):
    """A plugin of a definition and the values of its attributes."""

    def __init__(self, definition, values, request=None):
        super().__init__()
        self._definition, self._values = definition, values
        self.request = QuickPluginCreationRequest.UNKNOWN if request is None else QuickPluginCreationRequest(request)
        self.plugin_namespace, self.plugin_name = definition.plugin_id.split("::")
        self.plugin_version, self.num_outputs = "1", definition.num_outputs

    def clone(self):
        return _QuickPlugin(self._definition, self._values, self.request)

    def get_fields_to_serialize(self):
        return self._definition.fields_of(self._values)

    def _described(self, types, dims):
        """[TensorDesc] of the outputs; dims: numbers or expressions."""
        inputs = [input_desc(t, [IDimensionExpr(size) for size in given]) for t, given in zip(types, dims)]
        made = self._definition.register_func(*inputs, **self._values)
        made = list(made) if isinstance(made, tuple) else [made]
        for index, desc in enumerate(made):
            if desc.is_size_tensor:
                desc.index = index
        return inputs, made

    def results(self, types, dims):
        """[(type, [IDimensionExpr])]"""
        return [
            (desc.dtype, [self._size(expr) for expr in desc.shape_expr]) for desc in self._described(types, dims)[1]
        ]

    @staticmethod
    def _size(expr):
        if not expr.is_size_tensor:
            return expr._expr
        desc = expr._desc
        if desc.index is None:
            raise ValueError("a size tensor that tells a size is an output of the plugin, too")
        return IExprBuilder().declare_size_tensor(desc.index, desc.opt._expr, desc.upper_bound._expr)

    def aliased_inputs(self, types, dims):
        """{output: the input whose memory it lies in}"""
        inputs, outputs = self._described(types, dims)
        found = {}
        for index, desc in enumerate(outputs):
            for other, given in enumerate(inputs):
                if desc.get_aliased() is given:
                    found[index] = other
        return found

    def combinations(self, descs, inputs):
        """[((type, layout) of each tensor, [tactic])] that it says it can compute; None: what it is given."""
        function = self._definition.autotune_func
        if function is None:
            return None
        tensors = [tuned_desc(desc) for desc in descs]
        values = self._definition.attributes_for("autotune", self._values)
        return [
            expanded
            for combination in function(*tensors[:inputs], *values, tuple(tensors[inputs:]))
            for expanded in combination._expanded()
        ]

    def supports(self, place, descs, inputs):
        """Whether there is a combination that has the types of all tensors up to this one."""
        if any(desc.desc.format != TensorFormat.LINEAR for desc in descs):
            return False  # functions get arrays
        found = self.combinations(descs, inputs)
        wanted = [(desc.desc.type, TensorFormat.LINEAR) for desc in descs[: place + 1]]
        return found is None or any(list(of[: place + 1]) == wanted for of, _ in found)

    def _tactics(self, descs, inputs):
        """Those that go with the types of the tensors; [0] where there are none."""
        wanted = tuple((desc.desc.type, TensorFormat.LINEAR) for desc in descs)
        found = [t for of, tactics in self.combinations(descs, inputs) or () if of == wanted for t in tactics]
        return list(dict.fromkeys(found)) or [0]

    @property
    def _is_compiled(self):
        """Whether its kernels are compiled ahead of time: where there are some, unless they are not wanted."""
        definition, request = self._definition, self.request
        if definition.aot_impl_func is None or request == QuickPluginCreationRequest.STRICT_JIT:
            return False
        return definition.impl_func is None or request != QuickPluginCreationRequest.PREFER_JIT

    def compiled(self, given, dims):
        """(whether a function computes it, too, {output: input}, [tactic]) of kernels that are compiled ahead of time; None
        without. given: descriptions of the inputs; dims: their sizes, numbers or expressions."""
        definition = self._definition
        has_function = definition.impl_func is not None
        # Compilers want the GPU that they compile for.
        if not self._is_compiled or (has_function and device() == "cpu"):
            return None
        inputs, outputs = self._described([desc.type for desc in given], dims)
        if any(expr.is_size_tensor for desc in outputs for expr in desc.shape_expr):
            if has_function and self.request != QuickPluginCreationRequest.STRICT_AOT:
                return None
            raise ValueError(
                f"plugin '{definition.plugin_id}': an output of a size that only running tells is computed on the host "
                "alone: @tensorrt.plugin.impl"
            )
        made = [
            PluginTensorDesc(
                [size if isinstance(size, int) else -1 for size in map(_dim_of, desc.shape_expr)], desc.dtype
            )
            for desc in outputs
        ]
        ranges = [_ranges(desc) for desc in (*given, *made)]
        for desc, known in zip([*inputs, *outputs], ranges):
            set_known(desc, known)
        values = definition.attributes_for("aot_impl", self._values)
        tactics = []
        for tactic in self._tactics(ranges, len(given)):
            further = [tactic] if definition.expects_tactic("aot_impl") else []
            found = definition.aot_impl_func(*inputs, *values, tuple(outputs), *further)
            tactics.append(compiled_tactic(definition.plugin_id, found, len(inputs), len(outputs)))
        return has_function, self.aliased_inputs([desc.type for desc in given], dims), tactics

    def tactics_of_function(self, descs, inputs):
        """Those among which a build chooses where the function computes it; none where it is not told which."""
        return self._tactics(descs, inputs) if self._definition.expects_tactic("impl") else []

    def compute(self, given, made, inputs, outputs, aliases, memory, tactic):
        """Calls the function. given, made: descriptions of inputs and outputs; memory: where they lie."""
        arguments = [
            Tensor(desc, address, _strides(desc), memory, index not in aliases.values())
            for index, (desc, address) in enumerate(zip(given, inputs))
        ]
        results = tuple(Tensor(desc, address, _strides(desc), memory, False) for desc, address in zip(made, outputs))
        for output, index in aliases.items():
            results[output]._aliased_to, arguments[index]._aliased_to = arguments[index], results[output]
        arguments += self._definition.attributes_for("impl", self._values)
        arguments += [results, memory.stream]
        if self._definition.expects_tactic("impl"):
            arguments.append(tactic)
        self._definition.impl_func(*arguments)


def _dim_of(expr):
    return expr._expr._dim


def _ranges(desc):
    known = [1 if size < 0 else size for size in desc.dims]
    return DynamicPluginTensorDesc(desc, known, known, known)


def _strides(desc):
    strides = [1]
    for size in reversed(list(desc.dims)[1:]):
        strides.insert(0, strides[0] * max(1, size))
    return tuple(strides[: len(desc.dims)])


# ---- The decorators ----


def register(plugin_id, lazy_register=False):
    """Around a function that describes a plugin, "namespace::name": of TensorDescs and attributes, all with annotations,
    it gives the TensorDesc of the output, or a tuple of several."""

    def decorate(function):
        namespace, _, name = plugin_id.partition("::")
        if not namespace.isidentifier() or not name.isidentifier():
            raise ValueError(f"'{plugin_id}' is no name of a plugin: it is 'namespace::name', each a name in Python")
        if plugin_id in _definitions:
            raise ValueError(f"there is a plugin '{plugin_id}' already")
        definition = _definitions[plugin_id] = PluginDef(plugin_id, function)
        if namespace not in vars(op):
            setattr(op, namespace, _Namespace(f"tensorrt.plugin.op.{namespace}"))
        setattr(vars(op)[namespace], name, definition)
        return function

    return decorate


def _definition_of(plugin_id):
    if plugin_id not in _definitions:
        raise ValueError(f"there is no plugin '{plugin_id}': @tensorrt.plugin.register comes first")
    return _definitions[plugin_id]


def impl(plugin_id):
    """Around the function that computes it: of Tensors, attributes as it wants them, the outputs' Tensors, the stream,
    and, where it has an argument of that name, the tactic."""

    def decorate(function):
        definition = _definition_of(plugin_id)
        definition.take_function("impl", function, [_OUTPUTS, _STREAM, _TACTIC])
        definition.enter()
        return function

    return decorate


def autotune(plugin_id):
    """Around a function that says of which types it can be: of TensorDescs, attributes and the outputs' TensorDescs it
    gives AutoTuneCombinations. Without it a plugin takes the types that the network has."""

    def decorate(function):
        _definition_of(plugin_id).take_function("autotune", function, [_OUTPUTS])
        return function

    return decorate


def aot_impl(plugin_id):
    """Around the function that compiles it for GPUs: of TensorDescs, attributes as it wants them, the outputs'
    TensorDescs and the tactic it gives (name of the kernel, PTX or cubin, KernelLaunchParams, SymIntExprs). The kernel's
    parameters are the inputs' addresses, the expressions and the outputs' addresses. Engines keep it, and need no Python
    to run; an impl function, where there is one, is what they are verified against, and what the CPU runs."""

    def decorate(function):
        definition = _definition_of(plugin_id)
        definition.take_function("aot_impl", function, [_OUTPUTS, _TACTIC])
        definition.enter()
        return function

    return decorate


def request_of(network, aot):
    """What a network's flags, or the call or node itself, ask of plugins that have more than one way to be computed."""
    if aot is not None:
        return QuickPluginCreationRequest.STRICT_AOT if aot else QuickPluginCreationRequest.STRICT_JIT
    if network.get_flag(NetworkDefinitionCreationFlag.PREFER_AOT_PYTHON_PLUGINS):
        return QuickPluginCreationRequest.PREFER_AOT
    if network.get_flag(NetworkDefinitionCreationFlag.PREFER_JIT_PYTHON_PLUGINS):
        return QuickPluginCreationRequest.PREFER_JIT
    return QuickPluginCreationRequest.UNKNOWN
