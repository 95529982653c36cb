"""Assertions: conditions on shapes, which are looked at when building as far as they are known, and in each run."""

import numpy as np
import pytest
from test_tensorrt import Heard, trt

EQUAL = trt.ElementWiseOperation.EQUAL


def same_shape(shape):
    """A network that adds two tensors, and asserts that they are of one shape."""
    builder = trt.Builder(Heard())
    network = builder.create_network()
    x, y = (network.add_input(name, trt.float32, shape) for name in "xy")
    sizes = [network.add_shape(tensor).get_output(0) for tensor in (x, y)]
    layer = network.add_assertion(network.add_elementwise(*sizes, EQUAL).get_output(0), "x and y are of one shape")
    layer.name = "same"
    total = network.add_elementwise(x, y, trt.ElementWiseOperation.SUM).get_output(0)
    total.name = "total"
    network.mark_output(total)
    return builder, network, layer


def test_the_layer():
    _, network, layer = same_shape((-1, 4))
    assert isinstance(layer, trt.IAssertionLayer) and layer.type == trt.LayerType.ASSERTION
    assert layer.message == "x and y are of one shape" and (layer.num_inputs, layer.num_outputs) == (1, 0)
    layer.message = "another"
    assert network.get_layer(3).message == "another"
    with pytest.raises(TypeError, match="takes an ITensor"):
        network.add_assertion(None, "nothing")


def test_runs_fail_where_it_does_not_hold():
    builder, network, layer = same_shape((-1, 4))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    logger = Heard()
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    assert list(engine) == ["x", "y", "total"] and engine.num_io_tensors == engine.num_bindings == 3
    context = engine.create_execution_context()

    def run(rows_of_x, rows_of_y):
        x, y = np.ones((rows_of_x, 4), np.float32), np.ones((rows_of_y, 4), np.float32)
        total = np.empty((max(rows_of_x, rows_of_y), 4), np.float32)
        for name, array in (("x", x), ("y", y)):
            context.set_input_shape(name, array.shape)
        done = context.execute_v2([array.ctypes.data for array in (x, y, total)])
        assert not done or (total == 2).all()
        return done

    assert run(3, 3)
    assert not run(3, 1)  # which broadcasting would take
    assert logger.errors()[-1] == "the assertion 'same' does not hold: x and y are of one shape"
    assert run(2, 2)


def test_builds_fail_where_it_never_holds():
    for wanted, holds in (((2, 3), True), ((2, 4), False)):
        builder = trt.Builder(Heard())
        network = builder.create_network()
        x = network.add_input("x", trt.float32, (2, 3))
        want = network.add_constant((2,), np.array(wanted, np.int64)).get_output(0)
        condition = network.add_elementwise(network.add_shape(x).get_output(0), want, EQUAL).get_output(0)
        network.add_assertion(condition, "as wanted")
        network.mark_output(network.add_identity(x).get_output(0))
        plan = builder.build_serialized_network(network, builder.create_builder_config())
        assert (plan is not None) == holds
        if not holds:
            assert "does not hold: as wanted" in builder.logger.errors()[-1]


def test_what_depends_on_elements_is_left_to_runs():
    builder = trt.Builder(Heard())
    network = builder.create_network()
    flag = network.add_input("flag", trt.bool, (2,))
    network.add_assertion(flag, "both are set")
    network.mark_output(network.add_identity(flag).get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context, out = engine.create_execution_context(), np.empty(2, np.bool_)
    for values, holds in (([True, True], True), ([True, False], False)):
        given = np.array(values)
        assert context.execute_v2([given.ctypes.data, out.ctypes.data]) == holds


def test_inside_a_loop_it_is_refused():
    builder = trt.Builder(Heard())
    network = builder.create_network()
    x = network.add_input("x", trt.float32, (3, 2))
    loop = network.add_loop()
    loop.add_trip_limit(network.add_constant((), np.array(3, np.int32)).get_output(0), trt.TripLimit.COUNT)
    row = loop.add_iterator(x).get_output(0)
    condition = network.add_elementwise(row, row, EQUAL).get_output(0)
    network.add_assertion(condition, "it is itself").name = "inside"
    out = loop.add_loop_output(row, trt.LoopOutput.CONCATENATE)
    out.set_input(1, network.add_constant((), np.array(3, np.int32)).get_output(0))
    network.mark_output(out.get_output(0))
    with pytest.raises(NotImplementedError, match="'inside': an assertion inside a loop or a conditional"):
        builder.build_serialized_network(network, builder.create_builder_config())
