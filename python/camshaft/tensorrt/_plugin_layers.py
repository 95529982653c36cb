"""Layers that are plugins: the program's own, and those of TensorRT that Camshaft has."""

from camshaft import _native
from camshaft.tensorrt._compiled_plugins import CompiledPluginV2, CompiledPluginV3
from camshaft.tensorrt._enums import LayerType
from camshaft.tensorrt._network import ILayer
from camshaft.tensorrt._own_plugins import DOMAIN, OwnPlugin
from camshaft.tensorrt._plugin_operator import REQUEST, SHAPES, STORED, stored
from camshaft.tensorrt._plugin_registry import get_plugin_registry, operator_of
from camshaft.tensorrt._plugin_types import IPluginV3QuickBuild

_INT, _TEXT = 2, 3  # of ONNX's attributes


class _PluginLayer(ILayer):
    def __init__(self, network, name, inputs, outputs, plugin, key, shape_inputs):
        super().__init__(network, self._TYPE, name, inputs, outputs if isinstance(outputs, list) else [outputs])
        self._plugin, self._key, self._shape_inputs = plugin, key, shape_inputs

    #: The plugin that the layer was given.
    plugin = property(lambda self: self._plugin)

    def _write_into(self, scope, plan):
        if isinstance(self._plugin, OwnPlugin):
            self._write_node(scope, self._plugin.plugin_type, DOMAIN, self._plugin.attributes)
            return
        name, version, _ = self._key
        if get_plugin_registry().get_creator(*self._key) is None:
            raise ValueError(
                f"layer '{self.name}': register a creator of the plugin '{name}' (version {version}) first: engines make "
                "their plugins by it"
            )
        domain, operator = operator_of(*self._key)
        if isinstance(self._plugin, (CompiledPluginV2, CompiledPluginV3)):
            shapes = self._plugin.shape_inputs(len(self._inputs), self._shape_inputs)
            self._write_node(scope, operator, domain, [*self._plugin.attributes, *shapes])
            return
        attributes = [(STORED, _TEXT, [stored(self._plugin)]), (SHAPES, _INT, [self._shape_inputs])]
        if isinstance(self._plugin, IPluginV3QuickBuild):
            attributes.append((REQUEST, _INT, [int(self._plugin.request)]))
        self._write_node(scope, operator, domain, attributes)

    def _write_node(self, scope, operator, domain, attributes):
        made = _native.network_node(
            scope.net._native,
            operator,
            domain,
            scope.name_of_node(self, self.name),
            [scope.value(tensor).name for tensor in self._inputs],
            attributes,
            [scope.name_of_result(tensor) for tensor in self._outputs],
        )
        scope.take(self._outputs, made)


class IPluginV2Layer(_PluginLayer):
    """Of an IPluginV2DynamicExt, or of a plugin of TensorRT's own."""

    _TYPE = LayerType.PLUGIN_V2


class IPluginV3Layer(_PluginLayer):
    """Of an IPluginV3."""

    _TYPE = LayerType.PLUGIN_V3
