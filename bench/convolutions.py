"""Random convolutions, transposed ones too, beside ONNX Runtime: models of one node in f32, on one thread.

Over one to three axes, of 1 to 512 channels, dense, in groups and depthwise, with kernels, strides, dilations and pads
that may differ by axis. A case is drawn from the seed and its number alone: `--only` measures some of them again.
Prints the ratio (ONNX Runtime's time divided by ours), both times in microseconds and what was measured, and at the end
how many of each kind are below 0.9. See operators.py for how times are taken.
"""

import argparse
import os

import numpy
import onnxruntime
import operator_cases
import operators

MOST_ELEMENTS, MOST_WEIGHTS, MOST_PRODUCTS = 10**7, 4 * 10**6, 1.5e9


class Draw:
    """One convolution's sizes and attributes, or no possible one."""

    def __init__(self, random):
        def pick(*choices):
            return choices[int(random.integers(len(choices)))]

        def channels():
            small, any_number = int(random.integers(1, 17)), int(random.integers(1, 513))
            return pick(1, 1, 2, 3, 3, small, 8, 16, 32, 48, 64, 64, 96, 128, any_number, 256, 512)

        self.op, self.axes = pick("Conv", "Conv", "ConvTranspose"), pick(1, 2, 2, 3)
        kind, self.inputs, self.outputs, self.groups = (
            pick("dense", "dense", "depthwise", "few"),
            channels(),
            channels(),
            1,
        )
        if kind == "depthwise":
            self.groups, self.outputs = self.inputs, self.inputs * pick(1, 1, 1, 2)
        elif kind == "few":
            self.groups = pick(2, 3, 4, 8, 16, 32)
            self.inputs = max(1, self.inputs // self.groups) * self.groups
            self.outputs = max(1, self.outputs // self.groups) * self.groups

        def by_axis(same, share, *others):
            return [same] * self.axes if random.random() < share else [pick(*others) for _ in range(self.axes)]

        kernel = by_axis(int(random.integers(1, 8)), 0.6, *range(1, 8))
        strides = by_axis(pick(1, 1, 2, 2, 3), 0.75, 1, 2, 3, 4)
        dilations = by_axis(pick(1, 1, 1, 2, 3), 0.8, 1, 2, 3)
        self.batch = pick(1, 1, 1, 2, 4, 8)
        positions, shares = 10 ** random.uniform(0, 6), random.dirichlet(numpy.ones(self.axes) * 4)
        self.image = [max(1, round(positions**share)) for share in shares]
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
        mode, pads = pick("same", "same", "none", "random", "auto"), [0] * 2 * self.axes
        automatic = pick("SAME_UPPER", "SAME_LOWER") if self.op == "Conv" and max(dilations) == 1 else "VALID"
        if mode == "same":
            pads = [r // 2 for r in reach] * 2
        elif mode == "random":
            pads = [int(random.integers(0, r)) for r in reach * 2]
        self.attributes = {"group": self.groups, "kernel_shape": kernel, "strides": strides, "dilations": dilations}
        self.attributes |= {"auto_pad": automatic} if mode == "auto" else {"pads": pads}
        extra = [0] * self.axes
        if self.op == "ConvTranspose" and random.random() < 0.3:
            extra = self.attributes["output_padding"] = [int(random.integers(0, s)) for s in strides]
        cut = [pads[i] + pads[self.axes + i] for i in range(self.axes)]
        if self.op == "ConvTranspose":
            self.result = [(x - 1) * s + r + e - c for x, s, r, e, c in zip(self.image, strides, reach, extra, cut)]
        elif mode == "auto" and automatic != "VALID":
            self.result = [-(-x // s) for x, s in zip(self.image, strides)]
        else:
            self.result = [(x + c - r) // s + 1 for x, s, r, c in zip(self.image, strides, reach, cut)]
        self.has_bias, self.is_constant = random.random() < 0.5, random.random() < 0.85

    def shapes(self):
        transposed = self.op == "ConvTranspose"
        first, second = (self.inputs, self.outputs) if transposed else (self.outputs, self.inputs)
        weights = [first, second // self.groups, *self.attributes["kernel_shape"]]
        return [self.batch, self.inputs, *self.image], weights, [self.batch, self.outputs, *self.result]

    def products(self):
        x, weights, y = (float(numpy.prod(shape)) for shape in self.shapes())
        return (x if self.op == "ConvTranspose" else y) * weights / self.shapes()[1][0]

    def is_possible(self):
        x, weights, y = (float(numpy.prod(shape)) for shape in self.shapes())
        return (
            max(self.inputs, self.outputs) <= 512
            and min(self.result) >= 1
            and max(x, y) <= MOST_ELEMENTS
            and weights <= MOST_WEIGHTS
            and self.products() <= MOST_PRODUCTS
        )

    def kind(self):
        groups = "dense" if self.groups == 1 else "depthwise" if self.groups == self.inputs else "grouped"

        def size(channels):
            return "few" if channels <= 4 else "some" if channels <= 16 else "many"

        return f"{self.op} {self.axes}-D {groups}, {size(self.inputs)} channels to {size(self.outputs)}"

    def __str__(self):
        more = [f"{name}={value}" for name, value in self.attributes.items()]
        x, _, y = self.shapes()
        operands = ("" if self.is_constant else " weights=input") + (" bias" if self.has_bias else "")
        return f"{self.op} {x} -> {y} {' '.join(more)}{operands}".replace(", ", ",")


def draw(seed, number):
    random = numpy.random.default_rng([seed, number])
    while True:
        if (drawn := Draw(random)).is_possible():
            return drawn


def case_of(drawn):
    maker = operator_cases.Maker(drawn.op, 1000, "f32", "", None)
    x, weights, _ = (maker.array(shape, "f32", None, None) for shape in drawn.shapes())
    operands = [x, (weights,) if drawn.is_constant else weights]
    if drawn.has_bias:
        operands.append((maker.array([drawn.outputs], "f32", None, None),))
    return maker.case(str(drawn), operands, operator_cases.OPSET, 1, **drawn.attributes)


def numbers(text):
    return [int(number) for number in text.split(",")]


def options():
    parser = argparse.ArgumentParser(prog="bench/convolutions.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="cases: numbers 0 and on")
    parser.add_argument("--only", type=numbers, help="numbers of cases instead")
    parser.add_argument("--seconds", type=float, default=0.03, help="how long a case is measured, at least")
    parser.add_argument("--core", type=int, help="the processor to stay on")
    parser.add_argument("--quiet", action="store_true", help="print only what is too slow, and what could not be run")
    return parser.parse_args()


def main():
    arguments = options()
    if arguments.core is not None:
        os.sched_setaffinity(0, {arguments.core})
    onnxruntime.set_default_logger_severity(4)
    ratios = {}
    for number in arguments.only or range(arguments.count):
        drawn = draw(arguments.seed, number)
        try:
            ours, theirs = operators.measure_again(case_of(drawn), arguments.seconds, 0.97)
        except operators.Refused as error:
            if not str(error).startswith("ONNX Runtime"):
                print(f"{number}: {error}: {drawn}", flush=True)
            continue
        ratio = theirs / ours
        ratios.setdefault(drawn.kind(), []).append(ratio)
        if ratio < operators.BOUND or not arguments.quiet:
            print(f"{ratio:5.2f} {ours * 1e6:10.1f} {theirs * 1e6:10.1f} {number:5} {drawn}", flush=True)
    measured = [ratio for kind in ratios.values() for ratio in kind]
    slow = {kind: sum(ratio < operators.BOUND for ratio in ratios[kind]) for kind in ratios}
    print(f"{sum(slow.values())} of {len(measured)} below {operators.BOUND}, seed {arguments.seed}")
    for kind in sorted(slow, key=slow.get, reverse=True):
        if slow[kind]:
            print(f"{slow[kind]:4} of {len(ratios[kind]):4}, median {numpy.median(ratios[kind]):.2f}: {kind}")


if __name__ == "__main__":
    main()
