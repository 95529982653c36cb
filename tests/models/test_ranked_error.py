"""The judge of detections tells near-ties from errors."""

import camshaft_cli
import numpy as np

BOXES = np.array([[0, 0, 10, 10], [5, 5, 20, 20], [1, 2, 3, 4]], np.float32)
LABELS = np.array([1, 2, 1])
SCORES = np.array([0.9, 0.50001, 0.5], np.float32)
WANT = [BOXES, LABELS, SCORES]


def judged(boxes=BOXES, labels=LABELS, scores=SCORES):
    return camshaft_cli.worst_ranked_error([boxes, labels, scores], WANT)


def test_equal():
    assert judged() == 0


def test_rows_with_nearly_equal_scores_may_swap():
    swap = [0, 2, 1]
    assert judged(BOXES[swap], LABELS[swap]) < 1e-4


def test_other_swaps_are_errors():
    swap = [1, 0, 2]
    assert judged(BOXES[swap], LABELS[swap]) == float("inf")


def test_another_label_or_box_is_an_error():
    assert judged(labels=np.array([2, 2, 1])) == float("inf")
    assert judged(boxes=BOXES + np.float32([[0.5], [0], [0]])) > 1e-2


def test_small_differences_count():
    assert 1e-5 < judged(scores=SCORES * np.float32(1.00005)) < 1e-4
