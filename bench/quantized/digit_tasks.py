"""Digits read by small networks, which digit_networks.py trains."""

from functools import partial

import digit_networks
import numpy as np
from task import Part, Task


def calibration():
    pictures, _ = digit_networks.digits()
    return [{"pictures": pictures[i : i + 50]} for i in range(0, digit_networks.TRAINED, 50)]


def judged(count):
    pictures, classes = digit_networks.digits()
    rows = slice(digit_networks.TRAINED, digit_networks.TRAINED + count)
    return pictures[rows], classes[rows]


def classes_of(run, count):
    return run({"pictures": judged(count)[0]})[0].argmax(axis=1)


def right(answer, _):
    return 100 * float(np.mean(answer == judged(len(answer))[1]))


TASKS = tuple(
    Task(
        f"digits, {name}",
        "right, %",
        (Part(name, partial(digit_networks.path, name), calibration, transformer="vit" in name),),
        797,
        classes_of,
        right,
        lost=0.3,
    )
    for name in digit_networks.MODELS
)
