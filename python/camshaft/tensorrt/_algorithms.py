"""Algorithm selectors: programs of TensorRT 8 to 10 that choose the kernel of each layer, or write down which was taken."""

import hashlib
import json

from camshaft.tensorrt._enums import TensorFormat
from camshaft.tensorrt._log import theirs
from camshaft.tensorrt._values import Dims, dtype_of_name


class IAlgorithmSelector:
    """Chooses kernels: derive from it, and write select_algorithms(context, choices), which gives the indices of those
    that may be taken, and report_algorithms(contexts, choices), which is told what was."""

    def __init__(self):
        pass

    def select_algorithms(self, context, choices):
        raise NotImplementedError("an algorithm selector needs select_algorithms(context, choices)")

    def report_algorithms(self, contexts, choices):
        raise NotImplementedError("an algorithm selector needs report_algorithms(contexts, choices)")


class IAlgorithmIOInfo:
    """A tensor that a kernel reads or writes, row-major."""

    tensor_format, strides = TensorFormat.LINEAR, Dims()
    vectorized_dim, components_per_element = -1, 1

    def __init__(self, text):
        _, _, kind = text.rpartition(": ")
        name, _, sizes = kind.rstrip("]").partition("[")
        self.shape = Dims(int(size) if size.isdecimal() else -1 for size in sizes.split(", ") if size)
        strides = [1]
        for size in reversed(self.shape[1:]):
            strides.insert(0, strides[0] * max(1, size))
        self.strides = Dims(strides if self.shape else ())
        self._type = name

    @property
    def dtype(self):
        """Raises TypeError for types that TensorRT has not."""
        return dtype_of_name(self._type)


def _number(text):
    """The same in each build: names of kernels are text here, and numbers there."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


class IAlgorithmVariant:
    """Which kernel it is. `name` is what a lock file calls it."""

    implementation = tactic = 0

    def __init__(self, op, name):
        self.name = name
        self.implementation, self.tactic = _number(op), _number(name)


class IAlgorithm:
    """A kernel that a layer can be computed by."""

    algorithm_variant, timing_msec, workspace_size = None, 0.0, 0

    def __init__(self, op, tried, infos):
        self.algorithm_variant = IAlgorithmVariant(op, tried["tactic"])
        nanoseconds = [tried.get(key, -1) for key in ("measured_ns", "estimated_ns")]
        self.timing_msec = next((time / 1e6 for time in nanoseconds if time > 0), 0.0)
        self._infos = infos

    def get_algorithm_io_info(self, index):
        return self._infos[index] if 0 <= index < len(self._infos) else None


class IAlgorithmContext:
    """The layer that a kernel is for; sizes that are not fixed are -1."""

    name, num_inputs, num_outputs = "", 0, 0

    def __init__(self, name, infos, num_inputs):
        self.name, self.num_inputs, self.num_outputs = name, num_inputs, len(infos) - num_inputs
        self._infos = infos

    def get_shape(self, index):
        """[smallest, usual, largest]"""
        return [self._infos[index].shape] * 3 if 0 <= index < len(self._infos) else []


class Selection:
    """What a selector makes of the kernels that a build chose, by the lock file that it wrote."""

    def __init__(self, selector, path, rejects_empty):
        self._selector, self._path, self._rejects_empty = selector, path, rejects_empty
        self._contexts, self._chosen = [], []

    def ask(self, layers):
        """Whether other kernels are to be taken, which the lock file names then. Raises ValueError for what is no choice,
        and for none where that was to be refused."""
        lock = json.loads(self._path.read_text())
        by_name = {layer["name"]: layer for layer in layers}
        sources = [" + ".join(layer["sources"]) for layer in layers]
        changed = False
        for entry in lock["layers"]:
            layer = by_name.get(entry["layer"])
            # A chain that runs by steps is no layer: its parts are, which follow, and the last one has its name.
            # Another kernel for it would be another graph, to which the rest of the file does not fit.
            if layer is None or entry["tactic"] == "steps":
                continue
            name = " + ".join(layer["sources"])
            weights = {held["name"] for held in layer["weights"]}
            inputs = [text for text in layer["inputs"] if text.rpartition(": ")[0] not in weights]
            infos = [IAlgorithmIOInfo(text) for text in inputs + layer["outputs"]]
            known_as = name if name and sources.count(name) == 1 else layer["name"]
            context = IAlgorithmContext(known_as, infos, len(inputs))
            # The kernels of a chain are of one layer or of several: another choice is another graph, which is not offered.
            tried = [t for t in entry["tried"] if layer["op"] != "chain" or t["tactic"] == entry["tactic"]]
            choices = [IAlgorithm(layer["op"], kernel, infos) for kernel in tried]
            taken = self._taken(context, choices, [kernel["tactic"] for kernel in tried].index(entry["tactic"]))
            changed = changed or tried[taken]["tactic"] != entry["tactic"]
            entry["tactic"] = tried[taken]["tactic"]
            self._contexts.append(context)
            self._chosen.append(choices[taken])
        if changed:
            self._path.write_text(json.dumps(lock))
        return changed

    def _taken(self, context, choices, ours):
        with theirs():
            allowed = self._selector.select_algorithms(context, choices)
        allowed = list(allowed or [])
        if wrong := [index for index in allowed if not (isinstance(index, int) and 0 <= index < len(choices))]:
            raise ValueError(f"the algorithm selector chose {wrong[0]!r} of {len(choices)} for layer '{context.name}'")
        if not allowed:
            if self._rejects_empty:
                raise ValueError(f"the algorithm selector takes none of {len(choices)} for layer '{context.name}'")
            return ours
        return ours if ours in allowed else min(allowed, key=lambda index: choices[index].timing_msec)

    def report(self):
        with theirs():
            self._selector.report_algorithms(self._contexts, self._chosen)
