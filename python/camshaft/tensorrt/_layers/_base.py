"""What layers of TensorRT's network API that write ONNX nodes share."""

import contextlib

import numpy

from camshaft._values import Value
from camshaft.tensorrt._enums import DataType
from camshaft.tensorrt._network import ILayer, ITensor
from camshaft.tensorrt._values import Dims, Weights

#: Between a layer's name and what tells its inner nodes apart.
INNER = "::"
#: Above every version of ONNX's operators.
NEWEST = 10**6


def axes_of(mask):
    """The axes of a bit mask."""
    return [axis for axis in range(Dims.MAX_DIMS) if mask >> axis & 1]


#: Operators whose axes are an attribute before this version.
_AXES_ARE_INPUTS = {"Squeeze": 13, "Unsqueeze": 13, "ReduceSum": 13} | dict.fromkeys(
    ["ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"], 18
)


class Layer(ILayer):
    """A layer that writes ONNX nodes; the names of inner ones begin with its own."""

    def _write_into(self, scope, plan):
        with self._writing(scope):
            self._emit()

    @contextlib.contextmanager
    def _writing(self, scope):
        self._scope, self._count = scope, 0
        try:
            yield
        finally:
            self._scope = None

    def _value(self, operand):
        """The camshaft.Value of a tensor, or of an array or numbers, which become a constant; None for none."""
        if operand is None or isinstance(operand, Value):
            return operand
        if isinstance(operand, ITensor):
            return self._scope.value(operand)
        return self._constant(numpy.asarray(operand, None if hasattr(operand, "dtype") else numpy.int64))

    def _values(self, operands):
        """Of all of a node; numbers of NumPy are in the type of the floats beside them."""
        values = [None if isinstance(operand, numpy.floating) else self._value(operand) for operand in operands]
        kinds = [value.dtype for value in values if value is not None and value.dtype in ("f16", "bf16", "f64")]
        for k, operand in enumerate(operands):
            if isinstance(operand, numpy.floating):
                values[k] = self._constant(numpy.asarray(operand))
                if kinds:
                    values[k] = self._scope.net.Cast(values[k], to=kinds[0])
        return values

    def _constant(self, array):
        return self._scope.net.constant(numpy.ascontiguousarray(array).reshape(numpy.shape(array)))

    def _weights_of(self, array, role):
        """The same of numbers that a refit replaces: None for none."""
        if array is None:
            return None
        dense = numpy.ascontiguousarray(array).reshape(numpy.shape(array))
        return self._scope.net.constant(dense, self._scope.name_of_weights(self, dense, role))

    def _write(self, op, operands, outputs=None, **attributes):
        """A node; gives its first result."""
        return self._write_node(op, operands, outputs, **attributes)[0]

    def _write_node(self, op, operands, outputs=None, **attributes):
        """A node of these operands; gives its results. `outputs`: the layer's tensors that they are, None for one that is
        none; without it is an inner node."""
        scope = self._scope
        if op in _AXES_ARE_INPUTS and self._opset < _AXES_ARE_INPUTS[op]:
            *operands, attributes["axes"] = operands
        values = self._values(operands)
        self._count += 1
        # The layer's own name is that of the node that computes its result, for precisions by name.
        name = scope.name_of_node(self, self.name if outputs else f"{self.name}{INNER}{op}_{self._count}")
        names = [scope.name_of_result(tensor) if tensor is not None else None for tensor in outputs or [None]]
        made = getattr(scope.net, op)(*values, name=name, outputs=names, **attributes)
        results = made if isinstance(made, tuple) else (made,)
        for tensor, value in zip(outputs or (), results):
            if tensor is not None:
                scope.set(tensor, value)
        return results

    def _wide(self, indices):
        """As ONNX has indices that are several numbers each."""
        return self._write("Cast", [indices], to="i64") if indices.dtype != DataType.INT64 else indices

    def _result(self, index=0):
        return [self._outputs[index]]

    def _emit(self):
        raise NotImplementedError

    @property
    def _opset(self):
        return self._network._opset or NEWEST

    def _rank(self, index=0):
        return len(self._inputs[index].shape)

    def _array(self, weights):
        """Of Weights or an array; None for an empty one."""
        if weights is None:
            return None
        array = weights.numpy() if isinstance(weights, Weights) else numpy.asarray(weights)
        return array if array.size else None


def alias(of):
    """TensorRT 8's name of a property of sizes."""
    return property(lambda self: getattr(self, of), lambda self, value: setattr(self, of, Dims(value)))
