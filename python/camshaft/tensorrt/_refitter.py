"""TensorRT's Refitter: new weights for an engine that was built to be refitted."""

import math
import re
from pathlib import Path

import numpy

import camshaft
from camshaft.tensorrt import _cuda
from camshaft.tensorrt._enums import ErrorCode, TensorLocation, WeightsRole
from camshaft.tensorrt._log import Reporter
from camshaft.tensorrt._onnx_file import read_file
from camshaft.tensorrt._parser import ErrorList
from camshaft.tensorrt._refit_roles import Roles, numpy_type, of_normalization
from camshaft.tensorrt._values import Weights, dtype_of_name, nptype, threads_of


def _array_of(weights):
    return numpy.ascontiguousarray(weights.numpy() if isinstance(weights, Weights) else weights)


class Refitter(Reporter):
    """Weights have the names of the model's initializers, of INetworkDefinition.set_weights_name(), or those of their layer
    and role; _refit_roles.py says which these are."""

    def __init__(self, engine, logger):
        super().__init__(logger)
        self.logger = logger
        self._engine = engine._engine
        try:
            self._refitter = camshaft.Refitter(self._engine)
        except camshaft.Error as error:
            self._fail(str(error))
            raise RuntimeError(str(error)) from error
        self._all = {weight["name"]: weight for weight in self._refitter.all_weights}
        self._roles = Roles(self._all.values(), self._engine.metadata)
        self._files = []
        self._set, self._halves = {}, {}  # what was set; one of the two roles of a batch normalisation
        self._set_by_layer = {}  # by which layers, of what set_weights() set last
        self.weights_validation = True
        self.max_threads = 0

    # ---- What there is ----

    def get_all_weights(self):
        """The names of what can be replaced."""
        return [name for name, weight in self._all.items() if not weight["fixed_by"]]

    def get_all(self):
        """(layers, roles) of these."""
        return self._roles.of(self.get_all_weights())

    def get_missing_weights(self):
        """The names of what must be set, too."""
        return self._refitter.missing

    def get_missing(self):
        """(layers, roles) of these. Of a normalisation both halves are missing until both are there: one that is set is not
        among them."""
        missing = list(zip(*self._roles.of(self.get_missing_weights())))
        for layer, role in self._halves:
            other = WeightsRole.SHIFT if role == WeightsRole.SCALE else WeightsRole.SCALE
            if (layer, other) not in missing:
                missing.append((layer, other))
        missing = [place for place in missing if place not in self._halves]
        return [layer for layer, _ in missing], [role for _, role in missing]

    def get_named_weights(self, weights_name):
        """What was set; without elements where nothing was."""
        array = self._set.get(weights_name)
        if isinstance(array, camshaft.Memory):
            return Weights(dtype_of_name(array.dtype), array.address, math.prod(array.shape))
        return Weights() if array is None else Weights(array)

    def get_weights_prototype(self, weights_name):
        """Weights of the type and the size that the engine wants; without elements where there are none of that name."""
        weight = self._all.get(weights_name)
        if weight is None:
            return Weights()
        return Weights(numpy.zeros(weight["dims"], nptype(dtype_of_name(weight["dtype"]))))

    def get_weights_location(self, name):
        return TensorLocation.HOST

    # ---- New ones ----

    def set_named_weights(self, name, weights, location=TensorLocation.HOST):
        """False, with a message to the logger, for a name, a type or a number of elements that the engine does not
        have. The memory must stay as it is until the refit."""
        if location == TensorLocation.DEVICE and _cuda.has_gpu():
            return self._fail(f"weights '{name}' are on the device: they are taken from the host alone")
        array = _array_of(weights)
        dims = self._all[name]["dims"] if name in self._all else array.shape
        if array.size == numpy.prod(dims, dtype=int):
            array = array.reshape(dims)
        if not self._take(name, array):
            return False
        for layer, initializers in self._roles.normalizations.items():  # nothing is left of a half that was set before
            if all(initializer in self._set for initializer in initializers):
                self._halves = {place: half for place, half in self._halves.items() if place[0] != layer}
        return True

    def _take(self, name, array):
        with self._reporting():
            self._refitter.set(name, array)
            self._set[name] = array
            self._set_by_layer.pop(name, None)
            return True
        return False

    def _take_file(self, path):
        self._refitter.set_file(path)
        self._files.append(path)

    def set_weights(self, layer_name, role, weights):
        """The same by a layer and its role. A batch normalisation has a SCALE and a SHIFT, as one factor and one summand of
        each channel, of which neither can be set without the other."""
        role = WeightsRole(role)
        if layer_name in self._roles.normalizations and role in (WeightsRole.SCALE, WeightsRole.SHIFT):
            return self._set_half(layer_name, role, weights)
        found = self._roles.find(layer_name, role)
        if found is None:
            there = ", ".join(f"'{layer}' {role.name}" for layer, role in self._roles.alike(layer_name))
            return self._fail(
                f"the engine has no weights {role.name} of a layer '{layer_name}'; "
                + (f"there are {there}" if there else "get_all() lists what there is")
            )
        # Layers that share weights cannot have different ones.
        layers, array = self._set_by_layer.get(found, set()) | {layer_name}, _array_of(weights)
        others = layers - {layer_name}
        if others and not numpy.array_equal(self._set[found].reshape(-1), array.reshape(-1)):
            whose = "', '".join(sorted(others))
            return self._fail(f"weights '{found}' of '{layer_name}' are those of '{whose}', too, which has set others")
        if not self.set_named_weights(found, array):
            return False
        self._set_by_layer[found] = layers
        return True

    def _set_half(self, layer, role, weights):
        array = _array_of(weights).reshape(-1)
        initializers = self._roles.normalizations[layer]
        if array.size != math.prod(self._all[initializers[0]]["dims"]):
            return self._fail(
                f"{role.name} of '{layer}' has {array.size} numbers: {self._all[initializers[0]]['dims']}"
            )
        self._halves[layer, role] = array
        both = [self._halves.get((layer, each)) for each in (WeightsRole.SCALE, WeightsRole.SHIFT)]
        if any(half is None for half in both):
            return True
        for name, numbers in zip(initializers, of_normalization(*both)):
            if not self._take(name, numpy.ascontiguousarray(numbers, numpy_type(self._all[name]["dtype"]))):
                return False
        del self._halves[layer, WeightsRole.SCALE], self._halves[layer, WeightsRole.SHIFT]
        return True

    def unset_named_weights(self, weights_name):
        """As if they had not been set; False where they were not."""
        if weights_name not in self._set:
            return False
        del self._set[weights_name]
        self._set_by_layer.pop(weights_name, None)
        self._refitter = camshaft.Refitter(self._engine)
        for path in self._files:
            self._refitter.set_file(path)
        for other, array in self._set.items():
            self._refitter.set(other, array)
        return True

    def refit_cuda_engine(self):
        """Whether the engine has the new weights now; contexts take them with their next run."""
        with self._reporting():
            if self._halves:
                missing = ", ".join(f"'{layer}' {role.name}" for layer, role in zip(*self.get_missing()))
                raise ValueError(f"a refit needs {missing}, too")
            self._refitter.refit(threads_of(self.max_threads))
            self._set.clear()
            self._set_by_layer.clear()
            self._files.clear()
            return True
        return False

    def refit_cuda_engine_async(self, stream_handle):
        """The same: what is in the stream is done with the old weights."""
        return self.refit_cuda_engine()

    # ---- Ranges ----

    def set_dynamic_range(self, tensor_name, range):
        return self._fail("ranges of a built engine are not replaced: engines in int8 cannot be refitted")

    def get_dynamic_range(self, tensor_name):
        """None: there are none."""

    def get_tensors_with_dynamic_range(self):
        return []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


class OnnxParserRefitter(ErrorList):
    """Sets the initializers of an ONNX model in a Refitter; Refitter.refit_cuda_engine() follows."""

    def __init__(self, refitter, logger):
        super().__init__(logger)
        self._refitter = refitter
        self._model, self._folder = None, None
        self._given = {}  # initializers whose data the program has

    def refit_from_bytes(self, model, path=None):
        """Of a model's bytes; `path`: where it is from, in whose folder its external data lies. False where something is
        wrong: get_error() has it."""
        return self.load_model_proto(model, path) and self.refit_model_proto()

    def refit_from_file(self, model):
        """Of an ONNX file; of files that have weights alone (.npz, .safetensors), too."""
        path = Path(model)
        if path.suffix in (".npz", ".safetensors"):
            try:
                self._refitter._take_file(path)
            except camshaft.Error as error:
                return self._wrong(ErrorCode.REFIT_FAILED, str(error))
            return True
        try:
            data = read_file(path)
        except OSError as error:
            return self._wrong(ErrorCode.REFIT_FAILED, f"cannot read '{path}': {error.strerror}")
        return self.refit_from_bytes(data, path)

    def load_model_proto(self, model, path=None):
        self._folder = None if path is None else Path(path).resolve().parent
        try:
            camshaft.model_weights(model, self._folder, [])  # whether it is one
        except (camshaft.Error, TypeError) as error:
            return self._wrong(ErrorCode.REFIT_FAILED, f"this is no ONNX model: {error}")
        self._model = model
        return True

    def load_initializer(self, name, data, size):
        """The numbers of an initializer that lies in another file, from memory: a buffer, or an address."""
        import ctypes

        self._given[name] = ctypes.string_at(data, size) if isinstance(data, int) else bytes(memoryview(data))[:size]
        return True

    def refit_model_proto(self):
        if self._model is None:
            return self._wrong(ErrorCode.REFIT_FAILED, "there is no model: call load_model_proto()")
        wanted = self._refitter._all  # what nothing reads is not among them
        try:
            read = [name for name in wanted if name not in self._given]
            weights = camshaft.model_weights(self._model, self._folder, read)
            for name in self._given.keys() & wanted.keys():
                weights[name] = self._loaded(wanted[name])
            if any(name not in weights and not weight["fixed_by"] for name, weight in wanted.items()):
                weights |= self._of_network(wanted)
        except (camshaft.Error, ValueError) as error:
            return self._wrong(ErrorCode.REFIT_FAILED, str(error))
        for name, weight in weights.items():
            if not self._refitter._take(name, weight):
                return self._wrong(ErrorCode.REFIT_FAILED, f"initializer '{name}' does not fit the engine")
        left = [name for name, weight in wanted.items() if name not in weights and not weight["fixed_by"]]
        if left:
            return self._wrong(
                ErrorCode.REFIT_FAILED, f"the model has no weights {', '.join(left)}: the engine keeps those it has"
            )
        return True

    def _of_network(self, wanted):
        """Those of branches and loops by the names that they get where something is changed in the network: it is written
        anew then. None where the engine's are others, as of a network that has other ones."""
        from camshaft.tensorrt._builder import Builder
        from camshaft.tensorrt._parser import OnnxParser

        network = Builder(None).create_network()
        parser = OnnxParser(network, None)
        parser._given = self._given
        path = None if self._folder is None else self._folder / "model.onnx"
        if not parser.parse(self._model, path):
            return {}
        try:
            model = network._to_network()[0].to_onnx()
        except (camshaft.Error, ValueError):  # one that can be built as it is alone
            return {}
        named = camshaft.model_weights(self._model, self._folder, None) if not self._given else {}
        found = {name: weight for name, weight in camshaft.model_weights(model).items() if name not in named}
        fits = all(
            name in wanted and (wanted[name]["dtype"], tuple(wanted[name]["dims"])) == (weight.dtype, weight.shape)
            for name, weight in found.items()
        )
        return found if fits else {}

    def _loaded(self, weight):
        """What load_initializer() gave, as the engine has it."""
        name, dtype, dims = weight["name"], weight["dtype"], weight["dims"]
        data = numpy.frombuffer(self._given[name], numpy.uint8).copy()  # of which there are addresses
        bits = 8 if dtype == "bool" else int(re.search(r"\d+", dtype).group())
        wanted = -(-math.prod(dims) * bits // 8)
        if data.size != wanted:
            raise ValueError(f"initializer '{name}' was given as {data.size} bytes: {dtype}{dims} has {wanted}")
        return camshaft.Memory(data.ctypes.data, dtype, dims, owner=data)
