"""The registry of creators: each becomes an operator that networks and engines name."""

import hashlib
import inspect
import os
import threading
import warnings

import camshaft
from camshaft import _native
from camshaft.tensorrt._compiled_plugins import CompiledCreator, CompiledCreatorV3, library_at, mapped_files
from camshaft.tensorrt._own_plugins import own_creators
from camshaft.tensorrt._plugin_operator import PluginOperator
from camshaft.tensorrt._plugin_types import (
    IPluginCreator,
    IPluginCreatorV3One,
    IPluginCreatorV3Quick,
    IPluginV2,
    IPluginV3,
)

#: Domain of the operators that creators stand for; behind a point comes their namespace.
DOMAIN = "tensorrt"


def operator_of(name, version, namespace):
    """(domain, operator) of a creator's plugins."""
    return (f"{DOMAIN}.{namespace}" if namespace else DOMAIN), f"{name}.{version}"


def _source_of(creator):
    """Of the creator and of the plugins beside it: what engines are told apart by."""
    module = inspect.getmodule(type(creator))
    beside = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, (IPluginV2, IPluginV3)) and kind.__module__ == module.__name__
    ]
    texts = []
    for kind in [type(creator), *sorted(beside, key=lambda kind: kind.__name__)]:
        try:
            texts.append(inspect.getsource(kind))
        except (OSError, TypeError):  # of a program without a file
            texts.append(repr(sorted(vars(kind))))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


class IPluginRegistry:
    """The creators of the process."""

    error_recorder = None
    parent_search_enabled = False

    def __init__(self):
        self._creators = {}  # of programs
        self._operators = {}  # by the id of a creator that was registered: the native module keeps both for ever
        self._compiled = {}  # of libraries in C++
        self._own = own_creators()
        self._seen, self._libraries = set(), []  # paths of files that the process has mapped, and those with creators
        self._search_lock = threading.RLock()
        self._resources, self._resources_lock = {}, threading.Lock()  # [resource, how many hold it] by key

    @property
    def all_creators(self):
        self.search_libraries()
        return list({**self._own, **self._compiled, **self._creators}.values())

    plugin_creator_list = property(lambda self: [c for c in self.all_creators if isinstance(c, IPluginCreator)])
    all_creators_recursive = all_creators

    def search_libraries(self):
        """Takes the creators of libraries in C++ that the process has loaded since, by whatever: such a library registers
        its creators with itself as it is loaded, as REGISTER_TENSORRT_PLUGIN does, or in a function that is called."""
        with self._search_lock:
            mapped = mapped_files()
            for path in [path for path in mapped if path not in self._seen]:
                library = library_at(path, mapped[path])
                if library is not None:
                    self._libraries.append(library)
            self._seen = set(mapped)
            for library in self._libraries:
                if library.path in mapped and library.has_changed():
                    self._take_creators(library)

    def _take_creators(self, library):
        creators = library.creators()
        gone = [key for key, known in self._compiled.items() if library.owns(known) and known not in creators]
        for key in gone:
            del self._compiled[key]
        try:
            camshaft.load_plugin(library.path)
        except camshaft.Error as error:
            warnings.warn(f"plugins of {library.path} are not registered: {error}", RuntimeWarning, stacklevel=4)
            return
        for creator in creators:
            self._compiled.setdefault((creator.name, creator.plugin_version, creator.plugin_namespace), creator)

    def register_creator(self, creator, plugin_namespace=""):
        """Whether it is registered now: not where there is one of that name, version and namespace."""
        if not isinstance(creator, (IPluginCreator, IPluginCreatorV3One)):
            raise TypeError(f"a creator is an IPluginCreator or an IPluginCreatorV3One, not {creator!r}")
        if isinstance(creator, (CompiledCreator, CompiledCreatorV3)):  # that was deregistered
            key = (creator.name, creator.plugin_version, creator.plugin_namespace)
            if key in self._creators or key in self._compiled:
                return False
            creator.set_registered(True)
            self.search_libraries()
            return self._compiled.get(key) is creator
        self.search_libraries()
        creator.plugin_namespace = plugin_namespace or creator.plugin_namespace
        return self._enter(creator, _source_of(creator))

    def _enter(self, creator, source):
        key = (creator.name, creator.plugin_version, creator.plugin_namespace)
        if key in self._creators or key in self._compiled:
            return False
        domain, operator = operator_of(*key)
        file = getattr(inspect.getmodule(type(creator)), "__name__", "Python") + "." + type(creator).__name__
        made = self._operators.setdefault(id(creator), PluginOperator(creator))
        try:
            is_compiled = isinstance(creator, IPluginCreatorV3Quick)
            # Nothing of TensorRT's says that a plugin's work may be repeated without it.
            is_recorded = bool(getattr(creator, "camshaft_is_recorded", False))
            # TensorRT's are made for a GPU's memory and stream; whether there is one is not asked for yet.
            _native.register_plugin(
                domain, operator, key[1], file, source, made, [made.types()], None, None, is_compiled, True, is_recorded
            )
        except camshaft.InvalidArgumentError:  # one with other code was registered in its place
            return False
        self._creators[key] = creator
        return True

    def deregister_creator(self, creator):
        """Models do not mean it any more, and another one of its name may be registered. Engines keep it."""
        self.search_libraries()
        if isinstance(creator, (CompiledCreator, CompiledCreatorV3)):
            is_there = creator in self._compiled.values()
            if is_there:
                creator.set_registered(False)
                self.search_libraries()
            return is_there
        found = [key for key, known in self._creators.items() if known is creator]
        for key in found:
            del self._creators[key]
            _native.unregister_plugin("::".join(operator_of(*key)))
        return bool(found)

    def get_creator(self, type, version, plugin_namespace=""):
        self.search_libraries()
        key = (type, version, plugin_namespace)
        return self._creators.get(key) or self._compiled.get(key) or self._own.get(key)

    def get_plugin_creator(self, type, version, plugin_namespace=""):
        creator = self.get_creator(type, version, plugin_namespace)
        return creator if isinstance(creator, IPluginCreator) else None

    def _find(self, name, attributes):
        """(domain, operator, whether it is quickly deployable) of the plugin that a node means, as TensorRT's parser looks
        for it; None: of none."""
        version = attributes.get("plugin_version", "1")
        namespace = attributes.get("plugin_namespace", "")
        domain, operator = operator_of(name, version, namespace)
        creator = self._creators.get((name, version, namespace))
        if creator is not None:
            return domain, operator, isinstance(creator, IPluginCreatorV3Quick)
        loaded = any(plugin["name"] == f"{domain}::{operator}" for plugin in camshaft.plugins())  # of a library
        return (domain, operator, False) if loaded else None

    def load_library(self, plugin_path):
        """Loads a library that was compiled with camshaft/tensorrt/NvInfer.h: its creators are in this registry then,
        nodes may name its plugins, and engines find them. So does ctypes.CDLL()."""
        self.search_libraries()
        for library in self._loaded_from(plugin_path):
            library.register_again(lambda key: key not in self._creators and key not in self._compiled)
        camshaft.load_plugin(plugin_path)
        self.search_libraries()
        return plugin_path

    def deregister_library(self, handle):
        """Deregisters the library's creators. Nothing is unloaded, and loading it again registers them again."""
        self.search_libraries()
        for library in self._loaded_from(handle):
            library.take_out()
        self.search_libraries()

    def _loaded_from(self, path):
        path = os.path.realpath(path)
        return [library for library in self._libraries if os.path.realpath(library.path) == path]

    def acquire_plugin_resource(self, key, resource):
        """What all plugins have that ask for this key: a clone of the first one's resource."""
        with self._resources_lock:
            if key not in self._resources:
                self._resources[key] = [resource.clone(), 0]
            self._resources[key][1] += 1
            return self._resources[key][0]

    def release_plugin_resource(self, key):
        """Gives it back; when nobody holds it any more it is released. 0, or -1 for a key that nobody holds."""
        with self._resources_lock:
            if key not in self._resources:
                return -1
            self._resources[key][1] -= 1
            if self._resources[key][1] == 0:
                self._resources.pop(key)[0].release()
            return 0


_REGISTRY = IPluginRegistry()


def get_plugin_registry():
    """The registry of the process."""
    return _REGISTRY


def get_builder_plugin_registry(capability=None):
    return _REGISTRY


def init_libnvinfer_plugins(logger, namespace=""):
    """TensorRT's own plugins: those that Camshaft has are in the registry already (docs/plugins.md lists them), as are
    those of libraries that the process has loaded."""
    _REGISTRY.search_libraries()
    return True
