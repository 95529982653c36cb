"""Conditionals of TensorRT's network API, each as an If of ONNX."""

from camshaft.tensorrt._construct import Construct, scalar
from camshaft.tensorrt._enums import LayerType
from camshaft.tensorrt._layers import Layer


class IIfConditionalBoundaryLayer(Layer):
    """A layer between the inside of a conditional and what is around it."""

    _leaves = False  # whether its result is outside

    def __init__(self, network, conditional, type, name, inputs, outputs):
        super().__init__(network, type, name, inputs, outputs)
        self._construct = conditional

    conditional = property(lambda self: self._construct)


class IConditionLayer(IIfConditionalBoundaryLayer):
    """The condition: a scalar of BOOL."""

    def __init__(self, network, conditional, name, condition, outputs):
        super().__init__(network, conditional, LayerType.CONDITION, name, [condition], outputs)


class IIfConditionalInputLayer(IIfConditionalBoundaryLayer):
    """A tensor for the inside: what depends on it is computed in the branch that needs it, and nowhere else."""

    def __init__(self, network, conditional, name, input, output):
        super().__init__(network, conditional, LayerType.CONDITIONAL_INPUT, name, [input], [output])


class IIfConditionalOutputLayer(IIfConditionalBoundaryLayer):
    """A result of one branch or the other."""

    _leaves = True

    def __init__(self, network, conditional, name, of_true, of_false, output):
        super().__init__(network, conditional, LayerType.CONDITIONAL_OUTPUT, name, [of_true, of_false], [output])

    def _write_result(self, scope, value):
        with self._writing(scope):
            self._write("Identity", [value], self._result())


class IIfConditional(Construct):
    """A conditional of a network: the layers of its branches are those that depend on its input layers."""

    def set_condition(self, condition):
        if self._of(IConditionLayer):
            self._network._fail(f"'{self.name}' has a condition already")
            return None
        return self._add(IConditionLayer, LayerType.CONDITION, condition, outputs=0)

    def add_input(self, input):
        return self._add(IIfConditionalInputLayer, LayerType.CONDITIONAL_INPUT, input)

    def add_output(self, true_subgraph_output, false_subgraph_output):
        return self._add(
            IIfConditionalOutputLayer, LayerType.CONDITIONAL_OUTPUT, true_subgraph_output, false_subgraph_output
        )

    # ---- As an If of ONNX ----

    def _write_into(self, scope, plan):
        outputs = self._of(IIfConditionalOutputLayer)
        needed = [plan.needed([layer._inputs[k] for layer in outputs], self) for k in (0, 1)]
        if set(plan.units_of(self)) - needed[0] - needed[1]:
            self._body(scope, plan, None)  # what no output needs has types all the same
        bodies = [self._body(scope, plan, units) for units in needed]
        if not outputs:
            return
        condition = self._of(IConditionLayer)
        if not condition:
            raise ValueError(f"conditional '{self.name}' has no condition: call set_condition()")
        condition = scalar(scope, condition[0]._inputs[0], ("bool",))
        for k, body in enumerate(bodies):
            for layer in outputs:
                body.net.output(body.value(layer._inputs[k]))
        made = scope.net.If(
            condition,
            then_branch=bodies[0].net,
            else_branch=bodies[1].net,
            name=scope.name_of_node(self, self.name),
            outputs=len(outputs),
        )
        for body in bodies:
            scope.keep(body)
        for layer, value in zip(outputs, made if isinstance(made, tuple) else (made,)):
            layer._write_result(scope, value)

    def _body(self, scope, plan, units):
        body = scope.body(self, self.name)
        for layer in self._of(IIfConditionalInputLayer):
            body.set(layer._outputs[0], scope.value(layer._inputs[0]))
        scope.writer.write_units(body, plan, units)
        return body
