"""Gradients by reverse accumulation over numpy arrays: as much as training a small network takes."""

import numpy as np


class Var:
    """An array, what it was computed from, and how its gradient goes back to that."""

    def __init__(self, value, parents=()):
        self.value, self.parents, self.grad = np.asarray(value, np.float32), parents, None

    def __add__(self, other):
        other = as_var(other)

        def back(to):
            return lambda g: summed_to(g, to.value.shape)

        return Var(self.value + other.value, ((self, back(self)), (other, back(other))))

    def __mul__(self, other):
        other = as_var(other)
        a, b = self.value, other.value
        return Var(a * b, ((self, lambda g: summed_to(g * b, a.shape)), (other, lambda g: summed_to(g * a, b.shape))))

    def __matmul__(self, other):
        a, b = self.value, other.value
        return Var(
            a @ b,
            (
                (self, lambda g: summed_to(g @ b.swapaxes(-1, -2), a.shape)),
                (other, lambda g: summed_to(a.swapaxes(-1, -2) @ g, b.shape)),
            ),
        )

    def reshape(self, *shape):
        return Var(self.value.reshape(shape), ((self, lambda g: g.reshape(self.value.shape)),))

    def transpose(self, *axes):
        return Var(self.value.transpose(axes), ((self, lambda g: g.transpose(np.argsort(axes))),))

    def mean(self, axes):
        count = np.prod([self.value.shape[a] for a in axes])

        def back(g):
            return np.broadcast_to(np.expand_dims(g, axes) / count, self.value.shape)

        return Var(self.value.mean(axes), ((self, back),))


def as_var(x):
    return x if isinstance(x, Var) else Var(x)


def summed_to(gradient, shape):
    """Undoes broadcasting."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    axes = tuple(a for a, size in enumerate(shape) if size == 1 and gradient.shape[a] != 1)
    return gradient.sum(axes, keepdims=True)


def relu(x):
    return Var(np.maximum(x.value, 0), ((x, lambda g: g * (x.value > 0)),))


def sigmoid(x):
    y = 1 / (1 + np.exp(-x.value))
    return Var(y, ((x, lambda g: g * y * (1 - y)),))


def softmax(x):
    e = np.exp(x.value - x.value.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True)
    return Var(y, ((x, lambda g: y * (g - (g * y).sum(-1, keepdims=True))),))


def layer_norm(x, scale, bias, epsilon=1e-5):
    centred = x.value - x.value.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    y = centred / deviation

    def back(g):
        return (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)) / deviation

    return Var(y, ((x, back),)) * scale + bias


def windows(x, stride):
    """The 3 x 3 windows of an image with a border of zeros: [n, h, w, c] to [n, h / stride, w / stride, 9 c]."""
    n, h, w, c = x.value.shape
    places = [(slice(i, i + h, stride), slice(j, j + w, stride)) for i in range(3) for j in range(3)]
    padded = np.pad(x.value, ((0, 0), (1, 1), (1, 1), (0, 0)))

    def back(g):
        wide = np.zeros((n, h + 2, w + 2, c), np.float32)
        for k, (rows, columns) in enumerate(places):
            wide[:, rows, columns] += g[..., k * c : (k + 1) * c]
        return wide[:, 1:-1, 1:-1]

    return Var(np.concatenate([padded[:, rows, columns] for rows, columns in places], -1), ((x, back),))


def cross_entropy(logits, classes):
    """The mean over the batch."""
    p = softmax(Var(logits.value)).value
    rows = np.arange(len(classes))
    wanted = np.zeros_like(p)
    wanted[rows, classes] = 1
    return Var(-np.log(p[rows, classes] + 1e-12).mean(), ((logits, lambda g: g * (p - wanted) / len(classes)),))


def accumulate(loss):
    """Gives every Var that `loss` was computed from its gradient."""
    order, seen = [], set()

    def visit(x):
        if id(x) not in seen:
            seen.add(id(x))
            for parent, _ in x.parents:
                visit(parent)
            order.append(x)

    visit(loss)
    loss.grad = np.ones_like(loss.value)
    for x in reversed(order):
        for parent, back in x.parents:
            part = back(x.grad)
            parent.grad = part if parent.grad is None else parent.grad + part


def train(parameters, loss_of, samples, epochs, rng, batch=50, rate=3e-3):
    """Adam (Kingma and Ba, 2015), its rate falling to 0 as a cosine. `parameters` are arrays by name, changed in place;
    `loss_of` takes them as Vars, and the indices of a batch."""
    first = {name: np.zeros_like(array) for name, array in parameters.items()}
    second = {name: np.zeros_like(array) for name, array in parameters.items()}
    steps, step = epochs * (samples // batch), 0
    for _ in range(epochs):
        order = rng.permutation(samples)
        for start in range(0, samples - batch + 1, batch):
            step += 1
            variables = {name: Var(array) for name, array in parameters.items()}
            accumulate(loss_of(variables, order[start : start + batch]))
            now = rate * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, variable in variables.items():
                first[name] += 0.1 * (variable.grad - first[name])
                second[name] += 0.001 * (variable.grad**2 - second[name])
                mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
                parameters[name] -= now * mean / (np.sqrt(square) + 1e-8)
