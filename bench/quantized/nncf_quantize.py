#!/usr/bin/env python3
"""Quantises an ONNX model with NNCF, in an environment of its own, whose numpy is older than the project's.

usage: nncf_quantize.py MODEL.onnx DATA.npz OUT.onnx {any,transformer}       DATA has arrays named INDEX/INPUT
"""

import sys

import nncf
import numpy as np

import onnx


def main():
    model, data, out, kind = sys.argv[1:]
    feeds = {}
    with np.load(data) as arrays:
        for key in arrays.files:
            index, name = key.split("/", 1)
            feeds.setdefault(int(index), {})[name] = arrays[key]
    options = {"model_type": nncf.ModelType.TRANSFORMER} if kind == "transformer" else {}
    items = [feeds[index] for index in sorted(feeds)]
    quantised = nncf.quantize(onnx.load(model), nncf.Dataset(items), subset_size=len(items), **options)
    onnx.save(quantised, out)


if __name__ == "__main__":
    main()
