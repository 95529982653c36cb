"""TensorRT's Refitter: new weights for an engine that was built to be refitted."""

import numpy

from camshaft import Error
from camshaft import Refitter as _Refitter
from camshaft.tensorrt._enums import TensorLocation, WeightsRole
from camshaft.tensorrt._log import Reporter
from camshaft.tensorrt._values import Weights


class Refitter(Reporter):
    """Names are those of the model's initializers. Layers are Camshaft's, each weight of which has the role CONSTANT."""

    def __init__(self, engine, logger):
        super().__init__(logger)
        try:
            self._refitter = _Refitter(engine._engine)
        except Error as error:
            raise RuntimeError(str(error)) from error
        self._all = {weight["name"]: weight for weight in self._refitter.all_weights}
        self._set = {}
        self.weights_validation = True
        self.max_threads = 0

    def _is_free(self, name):
        return not self._all[name]["fixed_by"]

    def get_all_weights(self):
        """The names of what can be replaced."""
        return [name for name in self._all if self._is_free(name)]

    def get_all(self):
        """Layers, and the roles of their weights."""
        layers = [layer for name in self.get_all_weights() for layer in self._all[name]["layers"]]
        return layers, [WeightsRole.CONSTANT] * len(layers)

    def get_missing_weights(self):
        return list(self._refitter.missing)

    def get_missing(self):
        layers = [layer for name in self.get_missing_weights() for layer in self._all[name]["layers"]]
        return layers, [WeightsRole.CONSTANT] * len(layers)

    def set_named_weights(self, name, weights, location=TensorLocation.HOST):
        """False, with a message to the logger, for a name, a type or a number of elements that the engine does not
        have."""
        array = numpy.ascontiguousarray(weights.numpy() if isinstance(weights, Weights) else weights)
        dims = self._all[name]["dims"] if name in self._all else array.shape
        if array.size == numpy.prod(dims, dtype=int):
            array = array.reshape(dims)
        with self._reporting():
            self._refitter.set(name, array)
            self._set[name] = array
            return True
        return False

    def set_weights(self, layer_name, role, weights):
        """By the layer, where it has one weight alone that can be replaced."""
        names = [name for name in self.get_all_weights() if layer_name in self._all[name]["layers"]]
        if len(names) != 1:
            return self._fail(f"layer '{layer_name}' has the weights {names}: set them by name")
        return self.set_named_weights(names[0], weights)

    def get_named_weights(self, name):
        """What was set; without elements where nothing was."""
        return Weights(self._set[name]) if name in self._set else Weights()

    def get_weights_location(self, name):
        return TensorLocation.HOST

    def refit_cuda_engine(self):
        """Whether the engine has the new weights now; contexts take them with their next run."""
        with self._reporting():
            self._refitter.refit(self.max_threads)
            self._set.clear()
            return True
        return False

    def refit_cuda_engine_async(self, stream):
        """The same: the next run is after what is in the stream."""
        return self.refit_cuda_engine()
