"""Loops of TensorRT's network API, each as a Loop of ONNX."""

import re

import numpy

from camshaft.tensorrt._construct import Construct, scalar
from camshaft.tensorrt._enums import LayerType, LoopOutput, TripLimit
from camshaft.tensorrt._layers import Layer

#: Of sizes; others are computed from them.
_NAME = re.compile(r"[A-Za-z_][\w.]*")


class ILoopBoundaryLayer(Layer):
    """A layer between the inside of a loop and what is around it."""

    _leaves = False  # whether its result is outside

    def __init__(self, network, loop, type, name, inputs, outputs):
        super().__init__(network, type, name, inputs, outputs)
        self._construct = loop

    loop = property(lambda self: self._construct)


class IRecurrenceLayer(ILoopBoundaryLayer):
    """What one run of the body leaves to the next: input 0 is the value of the first run, input 1, which set_input()
    gives, that of the following ones, from inside."""

    def __init__(self, network, loop, name, initial, output):
        super().__init__(network, loop, LayerType.RECURRENCE, name, [initial], [output])


class ITripLimitLayer(ILoopBoundaryLayer):
    """How often the body runs: COUNT, a number from outside, or WHILE, as long as a condition from inside holds."""

    def __init__(self, network, loop, name, tensor, kind, outputs):
        super().__init__(network, loop, LayerType.TRIP_LIMIT, name, [tensor], outputs)
        self.__dict__["kind"] = kind


class IIteratorLayer(ILoopBoundaryLayer):
    """The part of a tensor at the number of the run, along an axis; with `reverse` counted back from the trip count."""

    def __init__(self, network, loop, name, tensor, axis, reverse, output):
        super().__init__(network, loop, LayerType.ITERATOR, name, [tensor], [output])
        self.axis, self.reverse = axis, reverse


class ILoopOutputLayer(ILoopBoundaryLayer):
    """What a loop gives: LAST_VALUE of a recurrence, or the values of all runs side by side along `axis`, in their order
    or from the last one on; then input 1 is how many there are to be."""

    _leaves = True

    def __init__(self, network, loop, name, tensor, kind, axis, output):
        super().__init__(network, loop, LayerType.LOOP_OUTPUT, name, [tensor], [output])
        self.__dict__["kind"] = kind
        self.axis = axis

    def _write_last(self, scope, last):
        """last: {output of a recurrence: its last value}"""
        if self._inputs[0] not in last:
            raise ValueError(f"loop output '{self.name}': LAST_VALUE is that of a recurrence of the loop")
        with self._writing(scope):
            self._write("Identity", [last[self._inputs[0]]], self._result())

    def _write_all(self, scope, values, is_exact):
        """values: [runs, …] as ONNX's Loop gives them; is_exact: there are as many as input 1 says."""
        if self.get_input(1) is None:
            raise ValueError(f"loop output '{self.name}': {self.kind.name} needs its length: call set_input(1, …)")
        if not 0 <= self.axis < len(values.shape):
            raise ValueError(f"loop output '{self.name}': its result has {len(values.shape)} axes, no axis {self.axis}")
        with self._writing(scope):
            length = self._write("Reshape", [self._write("Cast", [self._inputs[1]], to="i64"), [1]])
            if not is_exact:
                values = self._of_length(values, length)
            # How many there are the length says, which may be known where the number of runs is not.
            values = self._write("Reshape", [values, self._with_sizes(length, values)])
            if self.kind == LoopOutput.REVERSE:
                values = self._write("Slice", [values, [-1], [-(2**63) + 1], [0], [-1]])
            order = list(range(1, len(values.shape)))
            order.insert(self.axis, 0)
            self._write("Transpose", [values], self._result(), perm=order)

    def _with_sizes(self, first, values):
        """The shape of so many values of a run."""
        sizes = values.shape[1:]
        if not sizes:
            return first
        if any(not isinstance(size, int) for size in sizes):
            sizes = self._write("Shape", [values], start=1)
        return self._write("Concat", [first, sizes], axis=0)

    def _of_length(self, values, length):
        """Cut, or filled with zeros: the loop may have ended early."""
        values = self._write("Slice", [values, [0], length, [0]])
        missing = self._write("Sub", [length, self._write("Shape", [values], end=1)])
        zero = self._write("Cast", [numpy.zeros((), numpy.float32)], to=values.dtype)
        zeros = self._write("Expand", [zero, self._with_sizes(missing, values)])
        return self._write("Concat", [values, zeros], axis=0)


class ILoop(Construct):
    """A loop of a network: its layers are those that depend on its recurrences and iterators."""

    def add_recurrence(self, initial_value):
        return self._add(IRecurrenceLayer, LayerType.RECURRENCE, initial_value)

    def add_trip_limit(self, tensor, kind):
        """COUNT is a scalar from outside; WHILE a condition of recurrences, which is asked before each run. The loop ends
        when either says so."""
        kind = TripLimit(kind)
        if any(limit.kind == kind for limit in self._of(ITripLimitLayer)):
            self._network._fail(f"'{self.name}' has a trip limit {kind.name} already")
            return None
        return self._add(ITripLimitLayer, LayerType.TRIP_LIMIT, tensor, kind, outputs=0)

    def add_iterator(self, tensor, axis=0, reverse=False):
        return self._add(IIteratorLayer, LayerType.ITERATOR, tensor, int(axis), bool(reverse))

    def add_loop_output(self, tensor, kind, axis=0):
        return self._add(ILoopOutputLayer, LayerType.LOOP_OUTPUT, tensor, LoopOutput(kind), int(axis))

    # ---- As a Loop of ONNX ----

    def _write_into(self, scope, plan):
        recurrences = self._of(IRecurrenceLayer)
        limits = {layer.kind: layer._inputs[0] for layer in self._of(ITripLimitLayer)}
        count = None
        if TripLimit.COUNT in limits:
            count = scope.net.Cast(scalar(scope, limits[TripLimit.COUNT], ("i32", "i64")), to="i64")
        states = [scope.value(layer._inputs[0]) for layer in recurrences]
        shapes = [_sizes(layer, value) for layer, value in zip(recurrences, states)]
        while True:
            body, go_on = self._body(scope, plan, zip(recurrences, states, shapes), count)
            if not limits:
                raise ValueError(f"loop '{self.name}' has no trip limit: call add_trip_limit()")
            following = [body.value(self._next(layer)) for layer in recurrences]
            # What a run leaves need not have the sizes that it got: then these are unknown.
            joined = [_joined(layer, *both) for layer, *both in zip(recurrences, shapes, following)]
            if joined == shapes:
                break
            shapes = joined
        outputs = self._of(ILoopOutputLayer)
        if not outputs:
            return
        first = True
        if TripLimit.WHILE in limits:
            first = self._condition(scope, plan, limits[TripLimit.WHILE], states)
            go_on = self._condition(body, plan, limits[TripLimit.WHILE], following)
        collected = [layer for layer in outputs if layer.kind != LoopOutput.LAST_VALUE]
        for value in (go_on, *following, *(body.value(layer._inputs[0]) for layer in collected)):
            body.net.output(value)
        made = scope.net.Loop(
            count,
            first,
            *states,
            body=body.net,
            name=scope.name_of_node(self, self.name),
            outputs=len(states) + len(collected),
        )
        scope.keep(body)
        made = made if isinstance(made, tuple) else (made,)
        last = {layer._outputs[0]: value for layer, value in zip(recurrences, made)}
        is_exact = TripLimit.WHILE not in limits
        for layer in outputs:
            if layer.kind == LoopOutput.LAST_VALUE:
                layer._write_last(scope, last)
            else:
                length = layer.get_input(1)
                values = made[len(states) + collected.index(layer)]
                layer._write_all(scope, values, is_exact and length is limits[TripLimit.COUNT])

    def _body(self, scope, plan, carried, count):
        """The scope of a body with all that is inside, and the condition that it gets."""
        body = scope.body(self, self.name)
        number = next(body.net._numbers)
        run = body.net.input(f"{self.name}.run.{number}", "i64", ())
        go_on = body.net.input(f"{self.name}.condition.{number}", "bool", ())
        for k, (layer, value, shape) in enumerate(carried):
            body.set(layer._outputs[0], body.net.input(f"{self.name}.{k}.{number}", value.dtype, shape))
        for layer in self._of(IIteratorLayer):
            place = run
            if layer.reverse:
                if count is None:
                    raise ValueError(f"iterator '{layer.name}' counts back from a trip limit COUNT, and there is none")
                place = body.net.Sub(body.net.Sub(count, 1), run)
            body.set(layer._outputs[0], body.net.Gather(scope.value(layer._inputs[0]), place, axis=layer.axis))
        scope.writer.write_units(body, plan)
        return body, go_on

    @staticmethod
    def _next(layer):
        following = layer.get_input(1)
        if following is None:
            raise ValueError(f"recurrence '{layer.name}' has no value for the next run: call set_input(1, …)")
        return following

    def _condition(self, around, plan, tensor, states):
        """WHILE's condition, of these values of the recurrences, in the graph of `around`."""
        scope = around.aside(self)
        for layer, value in zip(self._of(IRecurrenceLayer), states):
            scope.values[layer._outputs[0]] = value
        units = plan.needed([tensor], self)
        read = {other for unit in units for other in plan.reads(unit)} | {tensor}
        for layer in self._of(IIteratorLayer):
            if layer._outputs[0] in read:
                raise ValueError(
                    f"the condition of loop '{self.name}' reads the iterator '{layer.name}': it is asked before a run"
                )
        around.writer.write_units(scope, plan, units)
        around.keep(scope)
        return scalar(scope, tensor, ("bool",))


def _sizes(layer, value):
    """Numbers and names; None for what is computed from sizes."""
    if value.shape is None:
        raise ValueError(f"'{layer.name}' is given a tensor of unknown rank")
    return tuple(size if isinstance(size, int) or _NAME.fullmatch(size) else None for size in value.shape)


def _joined(layer, shape, following):
    sizes = _sizes(layer, following)
    if len(sizes) != len(shape):
        raise ValueError(f"recurrence '{layer.name}' begins with {len(shape)} axes and goes on with {following.type}")
    return tuple(a if a == b else None for a, b in zip(shape, sizes))
