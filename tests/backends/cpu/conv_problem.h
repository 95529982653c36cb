// Random convolutions for the tests of several tactics.
#pragma once

#include <algorithm>

#include "backends/cpu/random_data.h"
#include "ir/ops/contract.h"
#include "ir/tensor.h"

namespace camshaft::cpu {

struct ConvProblem {
  ops::Conv op;
  Tensor x, weights, bias;
};

// Channels last, `axes` spatial axes, `inputs` and `outputs` channels a group.
inline ConvProblem random_problem(RandomData& data, size_t axes, int64_t groups, int64_t inputs, int64_t outputs) {
  ConvProblem p;
  p.op.groups = groups;
  p.op.channels_last = true;
  p.op.pads.assign(2 * axes, Dim(0));
  Dims x{data.integer(1, 2)}, weights{groups * outputs, inputs};
  for (size_t i = 0; i < axes; ++i) {
    const int64_t kernel = data.integer(1, 3), dilation = data.integer(1, 2), reach = (kernel - 1) * dilation + 1;
    const int64_t begin = data.integer(0, reach - 1), end = data.integer(0, reach - 1);
    p.op.strides.push_back(data.integer(1, 2));
    p.op.dilations.push_back(dilation);
    p.op.pads[i] = Dim(begin);
    p.op.pads[axes + i] = Dim(end);
    x.push_back(std::max<int64_t>(1, reach - begin - end) + data.integer(0, axes == 3 ? 5 : 12));
    weights.push_back(kernel);
  }
  x.push_back(groups * inputs);
  p.x = floats(data, x);
  p.weights = floats(data, weights);
  if (data.integer(0, 1)) p.bias = floats(data, {groups * outputs});
  return p;
}

}  // namespace camshaft::cpu
