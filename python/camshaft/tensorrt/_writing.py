"""From a network's layers to a camshaft.Network: which layer stands in which graph, in which order, and what its results
are."""

import json

import camshaft
from camshaft._values import Value
from camshaft.tensorrt._replay import Replay, add_constant
from camshaft.tensorrt._values import address_of


class Unknown(ValueError):
    """A tensor of whose layer something is wrong, which is said of the layer."""


class Scope:
    """A graph that layers are written into: the model's, or a body's. `of`: the loop or conditional whose body it is."""

    def __init__(self, writer, net, of=None, outer=None, is_shown=True):
        self.writer, self.net, self.of, self.outer, self.is_shown = writer, net, of, outer, is_shown
        self.values = {}  # camshaft.Values by ITensors
        self.nodes = []  # (layer, name of a node)

    def value(self, tensor):
        """Raises Unknown."""
        scope = self
        while scope is not None:
            if tensor in scope.values:
                return scope.values[tensor]
            scope = scope.outer
        raise Unknown(f"tensor '{tensor.name}' is not known here")

    def set(self, tensor, value):
        self.values[tensor] = value
        if self.is_shown:
            self.writer.known[tensor] = (value.dtype, value.shape)

    def take(self, tensors, made):
        """What the native module says of the results of a node."""
        for tensor, value in zip(tensors, json.loads(made)):
            if value is not None:
                self.set(tensor, Value(self.net, value))

    def body(self, of, name):
        """A body to be written, of a node that will be added here."""
        return Scope(self.writer, self.net.subgraph(name), of, self)

    def aside(self, of):
        """For nodes of this same graph that stand for the layers inside of a loop once more, with values of their own."""
        return Scope(self.writer, self.net, of, self, is_shown=False)

    def keep(self, body):
        """The body was made a part of this graph."""
        self.nodes += body.nodes

    def name_of_node(self, layer, name):
        """A free name for a node of the layer."""
        taken, free, number = self.writer.node_names, name, 0
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        taken.add(free)
        self.nodes.append((layer, free))
        return free

    def name_of_weights(self, layer, array, role):
        """What a refit calls a layer's numbers: by set_weights_name(), or by the layer and their role. None where there is
        such a name already, and in bodies, whose constants are not replaced."""
        named = self.writer.network._names_of_weights.get(address_of(array))
        name = named or f"{layer.name} {role.name}"
        taken = self.writer.weight_names
        if self.outer is not None or name in taken or name in self.writer.network._tensors:
            return None
        taken.add(name)
        return name

    def name_of_result(self, tensor):
        """The tensor's own name, which in bodies stays free: these may be written more than once."""
        return tensor.name if self.outer is None else None


class Writer:
    """What has been written of a network."""

    def __init__(self, network):
        self.network = network
        self.model = camshaft.Network(network.name or "network", network._opset)
        self.root = Scope(self, self.model)
        self.known = {}  # (dtype, shape) by ITensors, also of those in bodies
        self.node_names, self.weight_names = set(), set()
        self.errors = []  # in the order in which they were found
        self.seen = set()  # layers
        self.replay = Replay(network._functions, network._folder)
        self._initializers = {}
        self._inputs = self._layers = 0  # how many are written

    def catch_up(self):
        """Writes what is not written yet. What is wrong becomes one of `errors`."""
        inputs, layers = self.network._inputs[self._inputs :], self.network._layers[self._layers :]
        self._inputs, self._layers = len(self.network._inputs), len(self.network._layers)
        for tensor in inputs:
            with _Collecting(self.errors, tensor):
                self.root.set(tensor, self.model.input(*tensor._as_input()))
        self.seen.update(layers)
        if layers:
            with _Collecting(self.errors, self.network):
                self.write_units(self.root, Plan(layers))

    def write_units(self, scope, plan, wanted=None):
        """The layers, loops and conditionals that stand in a graph; of `wanted`, where it is given, alone."""
        for unit in plan.units_of(scope.of):
            if wanted is None or unit in wanted:
                with _Collecting(self.errors, unit):
                    unit._write_into(scope, plan)

    def initializer(self, name):
        """The Value of one that nodes of a parsed model read."""
        if name not in self._initializers:
            tensor = self.network._initializers[name]
            free = None if name in self.network._tensors else name
            self._initializers[name] = add_constant(self.model, tensor, self.network._folder, free)
        return self._initializers[name]

    def finish(self, outputs):
        """The model, with these outputs: {name: tensor}. Raises what is wrong."""
        self.catch_up()
        if self.errors:
            raise self.errors[0]
        for name, tensor in outputs.items():
            try:
                value = self.root.value(tensor)
            except Unknown:
                inside = "is inside a loop or a conditional" if tensor in self.known else "is computed by no layer"
                raise ValueError(f"output '{tensor.name}' {inside}") from None
            self.model.output(value, name)
        return self.model

    def nodes(self):
        """{layer: [name of a node]} of all that was written."""
        found = {}
        for layer, name in self.root.nodes:
            if layer in self.seen:  # loops and conditionals have nodes, too
                found.setdefault(layer, []).append(name)
        return found


class _Collecting:
    """Keeps the errors of one layer, or of what else has a name; what is unknown follows from another's."""

    def __init__(self, errors, of):
        self._errors, self._of = errors, of

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, Unknown) and self._errors:
            return True
        if not isinstance(error, (camshaft.Error, ValueError, TypeError, NotImplementedError)):
            return False
        named = f"'{self._of.name}'"
        text = str(error) if named in str(error) else f"{named}: {error}"
        self._errors.append(kind(text))
        return True


class Plan:
    """Which unit, a layer, a loop or a conditional, stands in which graph. A tensor that depends on what a loop computes
    anew in each run, or on an input of a conditional, is inside; all others are outside, also those that are read inside
    alone."""

    def __init__(self, layers):
        self._layers = layers
        self._source = {tensor: layer for layer in layers for tensor in layer._outputs}
        self._inside = {}  # frozenset of loops and conditionals by layer
        self._around = {}  # that a loop or conditional is itself inside of
        self._constructs = list(dict.fromkeys(layer._construct for layer in layers if layer._construct is not None))
        if self._constructs:
            self._place()
        self._members = {}
        for unit in [*layers, *self._constructs]:
            if getattr(unit, "_construct", None) is None:
                self._members.setdefault(self.owner(unit), []).append(unit)
        self._sorted = {}

    def _place(self):
        """What is inside of what: repeated until nothing changes, as loops in loops need once for each level."""
        for layer in self._layers:
            self._inside[layer] = frozenset()
        for construct in self._constructs:
            self._around[construct] = frozenset()
        changed = True
        while changed:
            changed = False
            for layer in self._layers:
                found = self._inside[layer].union(*map(self._inside_of, layer._reads()))
                if layer._construct is not None:
                    found = self._around[layer._construct] | found
                    outer = found - {layer._construct}
                    if outer != self._around[layer._construct]:
                        self._around[layer._construct] = outer
                        changed = True
                    found = outer if layer._leaves else outer | {layer._construct}
                if found != self._inside[layer]:
                    self._inside[layer] = found
                    changed = True

    def _inside_of(self, tensor):
        source = self._source.get(tensor)
        return self._inside[source] if source is not None else frozenset()

    def owner(self, unit):
        """The innermost loop or conditional that a layer, or another one, is inside of; None: the model's graph."""
        found = self._inside.get(unit, frozenset()) if unit not in self._around else self._around[unit]
        if not found:
            return None
        for construct in found:
            if self._around[construct] >= found - {construct}:
                return construct
        names = " and ".join(f"'{construct.name}'" for construct in found)
        raise ValueError(f"'{unit.name}' reads tensors that are inside {names}, neither of which is inside the other")

    def unit_of(self, tensor, owner):
        """What stands in the graph of `owner` and gives the tensor; None where that is another graph."""
        unit = self._source.get(tensor)
        if unit is None:
            return None
        if unit._construct is not None:
            if unit._construct is owner:
                return None  # of the body itself
            unit = unit._construct
        while unit is not None and self.owner(unit) is not owner:
            unit = self.owner(unit)
        return unit

    def reads(self, unit):
        """All tensors that a unit reads, also those that only layers inside read."""
        if unit not in self._around:
            return unit._reads()
        found = [tensor for layer in unit._boundary for tensor in layer._reads()]
        for inner in self._members.get(unit, ()):
            found += self.reads(inner)
        return found

    def units_of(self, owner):
        """In an order in which each has what it reads; else in the order in which they were added."""
        if owner not in self._sorted:
            self._sorted[owner] = self._order(self._members.get(owner, []), owner)
        return self._sorted[owner]

    def _order(self, members, owner):
        placed, order, waiting = set(), [], {}
        for unit in members:
            before = (self.unit_of(tensor, owner) for tensor in self.reads(unit))
            waiting[unit] = [other for other in before if other is not None and other is not unit]
        for first in members:
            stack, open_ = [first], {first}
            while stack:
                unit = stack[-1]
                following = next((other for other in waiting[unit] if other not in placed), None)
                if unit in placed or following is None:
                    stack.pop()
                    open_.discard(unit)
                    if unit not in placed:
                        placed.add(unit)
                        order.append(unit)
                    continue
                if following in open_:
                    raise ValueError(f"'{following.name}' reads what follows from its own result")
                open_.add(following)
                stack.append(following)
        return order

    def needed(self, tensors, owner):
        """The units in the graph of `owner` that these tensors follow from."""
        found, stack = set(), [self.unit_of(tensor, owner) for tensor in tensors]
        while stack:
            unit = stack.pop()
            if unit is not None and unit not in found:
                found.add(unit)
                stack += [self.unit_of(tensor, owner) for tensor in self.reads(unit)]
        return found
