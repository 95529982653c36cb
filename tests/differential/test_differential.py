"""A part of the differential test that is quick enough for every run: differential.py is the long one."""

import differential


def test_random_graphs_agree_with_onnxruntime():
    assert differential.main(["--count", "500", "--seed", "1", "--jobs", "2"]) == 0
