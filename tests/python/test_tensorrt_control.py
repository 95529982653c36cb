"""Loops and conditionals of TensorRT's network API, against NumPy."""

import numpy as np
import pytest
from test_tensorrt import Heard, trt
from test_tensorrt_network import close, f32, run

SUM = trt.ElementWiseOperation.SUM if trt else None
NONE = trt.MatrixOperation.NONE if trt else None


def constant(network, value):
    value = np.asarray(value)
    return network.add_constant(value.shape, value).get_output(0)


def both(network, a, b, op=SUM):
    return network.add_elementwise(a, b, op).get_output(0)


def unary(network, a, op):
    return network.add_unary(a, trt.UnaryOperation[op]).get_output(0)


def product(network, a, b):
    return network.add_matrix_multiply(a, NONE, b, NONE).get_output(0)


def refused(add, *shapes):
    """What the logger is told of a network that cannot be built."""
    logger = Heard()
    builder = trt.Builder(logger)
    network = builder.create_network()
    inputs = [network.add_input(f"x{k}", trt.float32, shape) for k, shape in enumerate(shapes)]
    network.mark_output(add(network, *inputs))
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    return "\n".join(logger.errors())


@pytest.mark.parametrize("trips", [0, 1, 5])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_number_of_runs(trips, dtype):
    x = f32(2, 3)

    def add(network, x, n):
        loop = network.add_loop()
        loop.name = "doubling"
        loop.add_trip_limit(n, trt.TripLimit.COUNT)
        state = loop.add_recurrence(x)
        doubled = both(network, state.get_output(0), state.get_output(0))
        assert doubled.shape == (2, 3) and doubled.dtype == trt.float32  # known before the loop is whole
        state.set_input(1, doubled)
        return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE)

    close(run(add, x, np.array(trips, dtype)), x * 2**trips)


def test_runs_as_long_as_a_condition_holds():
    """The condition is asked before each run, of what the one before left."""

    def add(network, x, bound):
        loop = network.add_loop()
        state = loop.add_recurrence(x)
        count = loop.add_recurrence(constant(network, np.int32(0)))
        go_on = network.add_elementwise(state.get_output(0), bound, trt.ElementWiseOperation.LESS).get_output(0)
        loop.add_trip_limit(go_on, trt.TripLimit.WHILE)
        state.set_input(1, both(network, state.get_output(0), state.get_output(0)))
        count.set_input(1, both(network, count.get_output(0), constant(network, np.int32(1))))
        return [loop.add_loop_output(t.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0) for t in (state, count)]

    for start, bound, runs in ((1, 100, 7), (3, 3, 0), (64, 65, 1)):
        last, count = run(add, np.array(start, np.float32), np.array(bound, np.float32))
        assert last == start * 2**runs and count == runs


@pytest.mark.parametrize("limit", [2, 9])
def test_the_first_of_both_limits_ends_a_loop(limit):
    def add(network, x, n):
        loop = network.add_loop()
        loop.add_trip_limit(n, trt.TripLimit.COUNT)
        state = loop.add_recurrence(x)
        small = network.add_elementwise(
            state.get_output(0), constant(network, np.float32(10)), trt.ElementWiseOperation.LESS
        )
        loop.add_trip_limit(small.get_output(0), trt.TripLimit.WHILE)
        state.set_input(1, both(network, state.get_output(0), constant(network, np.float32(3))))
        return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE)

    assert run(add, np.array(0, np.float32), np.array(limit, np.int32)) == min(3 * limit, 12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", ["CONCATENATE", "REVERSE"])
def test_iterators_and_values_of_all_runs(axis, reverse, kind):
    x = f32(3, 4, 5)

    def add(network, x):
        n = constant(network, np.int32(x.shape[axis]))
        loop = network.add_loop()
        loop.add_trip_limit(n, trt.TripLimit.COUNT)
        part = loop.add_iterator(x, axis, reverse)
        assert (part.axis, part.reverse) == (axis, reverse)
        layer = loop.add_loop_output(unary(network, part.get_output(0), "NEG"), trt.LoopOutput[kind], 1)
        layer.set_input(1, n)
        assert layer.kind == trt.LoopOutput[kind] and layer.axis == 1 and layer.loop is loop
        return layer

    want = -np.moveaxis(x, axis, 1)
    close(run(add, x), want if reverse == (kind == "REVERSE") else want[:, ::-1])


@pytest.mark.parametrize("length", [0, 3, 4, 7])
def test_lengths_other_than_the_number_of_runs(length):
    """What is too much is cut, and zeros fill up what is missing."""
    x = f32(4, 2)

    def add(network, x, n):
        loop = network.add_loop()
        loop.add_trip_limit(constant(network, np.int32(4)), trt.TripLimit.COUNT)
        layer = loop.add_loop_output(loop.add_iterator(x).get_output(0), trt.LoopOutput.CONCATENATE)
        layer.set_input(1, n)
        return layer

    want = np.zeros((length, 2), np.float32)
    want[:4] = x[:length]
    close(run(add, x, np.array(length, np.int32)), want)


def lstm(x, w, r, b):
    """x [time, batch, in], w [4 hidden, in], r [4 hidden, hidden]; gates i, o, f, c."""
    h = c = np.zeros((x.shape[1], r.shape[1]))
    states = []
    for step in x.astype(np.float64):
        i, o, f, g = np.split(step @ w.T + h @ r.T + b, 4, axis=1)
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        states.append(h)
    return np.stack(states), h, c


def test_lstm_of_any_time_and_batch():
    hidden, width = 6, 5
    w, r, b = f32(4 * hidden, width) / 2, f32(4 * hidden, hidden) / 2, f32(4 * hidden) / 2

    def add(network, x):
        assert x.shape == (-1, -1, width)
        sizes = network.add_shape(x).get_output(0)

        def size(axis):
            return network.add_gather(sizes, constant(network, np.int64(axis)), 0).get_output(0)

        batch = network.add_shuffle(size(1))
        batch.reshape_dims = (1,)
        shape = network.add_concatenation([batch.get_output(0), constant(network, np.int64([hidden]))])
        shape.axis = 0
        zeros = network.add_slice(constant(network, np.zeros((1, 1), np.float32)), (0, 0), (0, 0), (0, 0))
        zeros.set_input(2, shape.get_output(0))
        loop = network.add_loop()
        loop.add_trip_limit(size(0), trt.TripLimit.COUNT)
        h, c = (loop.add_recurrence(zeros.get_output(0)) for _ in range(2))
        gates = both(
            network,
            product(network, loop.add_iterator(x).get_output(0), constant(network, np.ascontiguousarray(w.T))),
            product(network, h.get_output(0), constant(network, np.ascontiguousarray(r.T))),
        )
        gates = both(network, gates, constant(network, b[None]))
        assert gates.shape[1] == 4 * hidden

        def gate(k, kind):
            part = network.add_slice(gates, (0, k * hidden), (0, 0), (1, 1))
            part.set_input(2, shape.get_output(0))
            return network.add_activation(part.get_output(0), trt.ActivationType[kind]).get_output(0)

        i, o, f, g = gate(0, "SIGMOID"), gate(1, "SIGMOID"), gate(2, "SIGMOID"), gate(3, "TANH")
        times = trt.ElementWiseOperation.PROD
        cell = both(network, both(network, f, c.get_output(0), times), both(network, i, g, times))
        state = both(network, o, network.add_activation(cell, trt.ActivationType.TANH).get_output(0), times)
        h.set_input(1, state)
        c.set_input(1, cell)
        states = loop.add_loop_output(state, trt.LoopOutput.CONCATENATE)
        states.set_input(1, size(0))
        last = [loop.add_loop_output(t.get_output(0), trt.LoopOutput.LAST_VALUE) for t in (h, c)]
        return [layer.get_output(0) for layer in (states, *last)]

    for time, batch in ((7, 3), (1, 1)):
        x = f32(time, batch, width)
        for got, want in zip(run(add, x, shapes={0: (-1, -1, width)}), lstm(x, w, r, b)):
            close(got, want, 1e-4)


def test_loops_inside_loops():
    """sums[i, j] = sum of x[i, :j + 1], by a loop over rows around one over columns."""
    x = f32(4, 6)

    def add(network, x):
        zero = constant(network, np.float32(0))
        rows, columns = constant(network, np.int32(4)), constant(network, np.int32(6))
        outer, inner = network.add_loop(), network.add_loop()
        outer.add_trip_limit(rows, trt.TripLimit.COUNT)
        inner.add_trip_limit(columns, trt.TripLimit.COUNT)
        row = outer.add_iterator(x).get_output(0)
        element = inner.add_iterator(row).get_output(0)
        total = inner.add_recurrence(zero)
        following = both(network, total.get_output(0), element)
        total.set_input(1, following)
        sums = inner.add_loop_output(following, trt.LoopOutput.CONCATENATE)
        sums.set_input(1, columns)
        last = inner.add_loop_output(total.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)
        whole = outer.add_recurrence(zero)
        whole.set_input(1, both(network, whole.get_output(0), last))
        table = outer.add_loop_output(sums.get_output(0), trt.LoopOutput.CONCATENATE)
        table.set_input(1, rows)
        return [
            table.get_output(0),
            outer.add_loop_output(whole.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0),
        ]

    table, whole = run(add, x)
    close(table, np.cumsum(x, 1))
    close(whole, x.sum(), 1e-4)


def test_what_is_carried_may_grow():
    """TensorRT wants one shape; here sizes may change from run to run."""
    x = f32(2, 3)

    def add(network, x, n):
        loop = network.add_loop()
        loop.add_trip_limit(n, trt.TripLimit.COUNT)
        state = loop.add_recurrence(x)
        longer = network.add_concatenation([state.get_output(0), x])
        longer.axis = 0
        state.set_input(1, longer.get_output(0))
        return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE)

    close(run(add, x, np.array(3, np.int32)), np.tile(x, (4, 1)))


@pytest.mark.parametrize("holds", [True, False])
def test_a_conditional_takes_one_branch(holds):
    x = np.abs(f32(2, 3)) + 1

    def add(network, x, p):
        conditional = network.add_if_conditional()
        conditional.name = "branches"
        condition = conditional.set_condition(p)
        inside = conditional.add_input(x)
        assert condition.conditional is conditional and inside.get_output(0).shape == (2, 3)
        shared = unary(network, inside.get_output(0), "SQRT")
        twice = both(network, shared, shared)
        assert twice.shape == (2, 3)
        return conditional.add_output(twice, unary(network, shared, "NEG"))

    close(run(add, x, np.array(holds)), 2 * np.sqrt(x) if holds else -np.sqrt(x))


@pytest.mark.parametrize("holds", [True, False])
def test_a_conditional_of_several_results(holds):
    x, y = f32(4), f32(4)

    def add(network, x, y, p):
        conditional = network.add_if_conditional()
        conditional.set_condition(p)
        a, b = (conditional.add_input(tensor).get_output(0) for tensor in (x, y))
        return [
            conditional.add_output(both(network, a, b), a).get_output(0),
            conditional.add_output(x, y).get_output(0),  # tensors from outside
        ]

    first, second = run(add, x, y, np.array(holds))
    close(first, x + y if holds else x)
    close(second, x if holds else y)


def test_conditionals_in_loops_and_loops_in_conditionals():
    """Numbers below zero are halved five times, others negated."""
    x = f32(8)

    def add(network, x):
        n = constant(network, np.int32(8))
        loop = network.add_loop()
        loop.add_trip_limit(n, trt.TripLimit.COUNT)
        element = loop.add_iterator(x).get_output(0)
        conditional = network.add_if_conditional()
        below = network.add_elementwise(element, constant(network, np.float32(0)), trt.ElementWiseOperation.LESS)
        conditional.set_condition(below.get_output(0))
        inside = conditional.add_input(element).get_output(0)
        halving = network.add_loop()
        halving.add_trip_limit(constant(network, np.int32(5)), trt.TripLimit.COUNT)
        half = halving.add_recurrence(inside)
        half.set_input(
            1, both(network, half.get_output(0), constant(network, np.float32(0.5)), trt.ElementWiseOperation.PROD)
        )
        small = halving.add_loop_output(half.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)
        chosen = conditional.add_output(small, unary(network, inside, "NEG"))
        layer = loop.add_loop_output(chosen.get_output(0), trt.LoopOutput.CONCATENATE)
        layer.set_input(1, n)
        return layer

    close(run(add, x), np.where(x < 0, x / 32, -x))


def counted(network, x, n=3):
    loop = network.add_loop()
    loop.add_trip_limit(constant(network, np.int32(n)), trt.TripLimit.COUNT)
    state = loop.add_recurrence(x)
    return loop, state


def test_loops_that_are_not_whole_say_what_is_missing():
    def without_limit(network, x):
        loop = network.add_loop()
        state = loop.add_recurrence(x)
        state.set_input(1, state.get_output(0))
        return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)

    def without_next(network, x):
        loop, state = counted(network, x)
        return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)

    def without_length(network, x):
        loop, state = counted(network, x)
        state.set_input(1, state.get_output(0))
        return loop.add_loop_output(state.get_output(0), trt.LoopOutput.CONCATENATE).get_output(0)

    def last_of_what_is_no_recurrence(network, x):
        loop, state = counted(network, x)
        more = both(network, state.get_output(0), x)
        state.set_input(1, more)
        return loop.add_loop_output(more, trt.LoopOutput.LAST_VALUE).get_output(0)

    def of_an_axis(network, x):
        loop, state = counted(network, x)
        state.set_input(1, state.get_output(0))
        layer = loop.add_loop_output(state.get_output(0), trt.LoopOutput.CONCATENATE, 4)
        layer.set_input(1, constant(network, np.int32(3)))
        return layer.get_output(0)

    def of_a_vector(network, x):
        loop = network.add_loop()
        loop.add_trip_limit(constant(network, np.int32([3])), trt.TripLimit.COUNT)
        state = loop.add_recurrence(x)
        state.set_input(1, state.get_output(0))
        return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)

    def of_another_type(network, x):
        loop, state = counted(network, x)
        state.set_input(1, network.add_cast(state.get_output(0), trt.int32).get_output(0))
        return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)

    def from_inside(network, x):
        loop, state = counted(network, x)
        state.set_input(1, state.get_output(0))
        return state.get_output(0)

    def condition_of_an_iterator(network, x):
        loop = network.add_loop()
        part = loop.add_iterator(x).get_output(0)
        loop.add_trip_limit(
            network.add_elementwise(part, constant(network, np.float32(0)), trt.ElementWiseOperation.LESS).get_output(
                0
            ),
            trt.TripLimit.WHILE,
        )
        state = loop.add_recurrence(x)
        state.set_input(1, state.get_output(0))
        return loop.add_loop_output(state.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)

    def backwards_without_a_number(network, x):
        loop = network.add_loop()
        state = loop.add_recurrence(constant(network, True))
        loop.add_trip_limit(state.get_output(0), trt.TripLimit.WHILE)
        state.set_input(1, state.get_output(0))
        layer = loop.add_loop_output(loop.add_iterator(x, 0, True).get_output(0), trt.LoopOutput.CONCATENATE)
        layer.set_input(1, constant(network, np.int32(1)))
        return layer.get_output(0)

    def of_two_loops(network, x):
        (_, a), (_, b) = counted(network, x), counted(network, x)
        for state in (a, b):
            state.set_input(1, state.get_output(0))
        return both(network, a.get_output(0), b.get_output(0))

    def without_condition(network, x):
        conditional = network.add_if_conditional()
        inside = conditional.add_input(x).get_output(0)
        return conditional.add_output(inside, inside).get_output(0)

    for add, words in (
        (without_limit, "no trip limit"),
        (without_next, "no value for the next run"),
        (without_length, "CONCATENATE needs its length"),
        (last_of_what_is_no_recurrence, "LAST_VALUE is that of a recurrence"),
        (of_an_axis, "no axis 4"),
        (of_a_vector, "is a scalar of i32 or i64"),
        (of_another_type, "i32"),
        (from_inside, "is inside a loop or a conditional"),
        (condition_of_an_iterator, "reads the iterator"),
        (backwards_without_a_number, "counts back from a trip limit COUNT"),
        (of_two_loops, "neither of which is inside the other"),
        (without_condition, "has no condition"),
    ):
        assert words in refused(add, (3,)), (words, refused(add, (3,)))


def test_a_limit_and_a_condition_are_given_once():
    logger = Heard()
    network = trt.Builder(logger).create_network()
    loop = network.add_loop()
    n = constant(network, np.int32(1))
    assert loop.add_trip_limit(n, trt.TripLimit.COUNT).kind == trt.TripLimit.COUNT
    assert loop.add_trip_limit(n, trt.TripLimit.COUNT) is None and "COUNT already" in logger.errors()[-1]
    conditional = network.add_if_conditional()
    p = constant(network, True)
    assert conditional.set_condition(p).type == trt.LayerType.CONDITION
    assert conditional.set_condition(p) is None and "condition already" in logger.errors()[-1]
