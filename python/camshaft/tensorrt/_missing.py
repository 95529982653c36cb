"""What TensorRT has and Camshaft lacks: names that programs import, which say so when they are used."""


class IPluginRegistry:
    """The plugins that are loaded: none, as plugins cannot be loaded yet."""

    plugin_creator_list = ()
    all_creators = ()
    all_creators_recursive = ()
    error_recorder = None
    parent_search_enabled = False

    def get_plugin_creator(self, type, version, plugin_namespace=""):
        return None

    get_creator = get_plugin_creator

    def _missing(self, *arguments, **named):
        raise NotImplementedError("plugins cannot be loaded yet: replace the operator by those of ONNX")

    register_creator = register_library = load_library = deregister_library = deregister_creator = _missing


_REGISTRY = IPluginRegistry()


def get_plugin_registry():
    """The registry of the process."""
    return _REGISTRY


def get_builder_plugin_registry(capability=None):
    return _REGISTRY


def init_libnvinfer_plugins(logger, namespace=""):
    """TensorRT's own plugins: there is nothing to load, and models that need one are refused when they are parsed."""
    return True


def _missing_class(name, why):
    def refuse(self, *arguments, **named):
        raise NotImplementedError(f"{name}: {why}")

    return type(name, (), {"__doc__": f"Raises NotImplementedError: {why}", "__init__": refuse})


_NO_PLUGINS = "plugins cannot be loaded yet"
IPluginV2 = _missing_class("IPluginV2", _NO_PLUGINS)
IPluginV2Ext = _missing_class("IPluginV2Ext", _NO_PLUGINS)
IPluginV2DynamicExt = _missing_class("IPluginV2DynamicExt", _NO_PLUGINS)
IPluginV3 = _missing_class("IPluginV3", _NO_PLUGINS)
IPluginCreator = _missing_class("IPluginCreator", _NO_PLUGINS)
IPluginCreatorV3One = _missing_class("IPluginCreatorV3One", _NO_PLUGINS)
PluginField = _missing_class("PluginField", _NO_PLUGINS)
PluginFieldCollection = _missing_class("PluginFieldCollection", _NO_PLUGINS)


class _Base:
    """A class to derive from, whose calls nobody makes here."""

    def __init__(self):
        pass


class IAlgorithmSelector(_Base):
    """Chooses tactics: it is not asked. A lock file fixes them (camshaft.build(…, lock=…))."""


class IGpuAllocator(_Base):
    """Allocates a GPU's memory: it is not asked."""


class IGpuAsyncAllocator(IGpuAllocator):
    """Likewise."""


class IAlgorithm(_Base):
    """What IAlgorithmSelector would be given."""


class IAlgorithmContext(_Base):
    """Likewise."""


class IAlgorithmIOInfo(_Base):
    """Likewise."""


class IAlgorithmVariant(_Base):
    """Likewise."""
