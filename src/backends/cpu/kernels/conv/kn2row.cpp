#include "backends/cpu/kernels/conv/kn2row.h"

#include "base/error.h"

namespace camshaft::cpu {

namespace {

// Calls move(index in the packed weights, index in ONNX order) for each element, in the order of the latter.
template <class Move>
void for_each_weight(const Kn2rowWeights& w, Move&& move) {
  const int64_t outputs = w.out_channels / w.groups;
  int64_t at = 0;
  for (int64_t o = 0; o < w.out_channels; ++o) {
    const int64_t group = o / outputs, own = o % outputs;
    for (int64_t c = 0; c < w.group_channels; ++c) {
      const int64_t row = ((group * w.group_channels + c) * outputs + own) * w.taps;
      for (int64_t tap = w.taps; tap-- > 0;) move(row + tap, at++);
    }
  }
}

}  // namespace

void pack_kn2row_weights(const Kn2rowWeights& weights, const float* oihw, float* packed) {
  for_each_weight(weights, [&](int64_t to, int64_t from) { packed[to] = oihw[from]; });
}

void unpack_kn2row_weights(const Kn2rowWeights& weights, const float* packed, float* oihw) {
  for_each_weight(weights, [&](int64_t from, int64_t to) { oihw[to] = packed[from]; });
}

ConvTransposeShape kn2row_shape(const ConvShape& s) {
  if (s.stride_d != 1 || s.stride_h != 1 || s.stride_w != 1)
    throw Error(ErrorCode::invalid_argument, "kn2row: a convolution by steps of more than one pixel");
  ConvTransposeShape t;
  t.batch = s.batch, t.groups = s.groups, t.in_channels = s.in_channels, t.out_channels = s.out_channels;
  t.in_d = s.in_d, t.in_h = s.in_h, t.in_w = s.in_w;
  t.kernel_d = s.kernel_d, t.kernel_h = s.kernel_h, t.kernel_w = s.kernel_w;
  t.dilation_d = s.dilation_d, t.dilation_h = s.dilation_h, t.dilation_w = s.dilation_w;
  // What a pixel adds to begins as far before it as the kernel reaches; pads cut that off, or more is cut than pads.
  const int64_t reach_d = (s.kernel_d - 1) * s.dilation_d, reach_h = (s.kernel_h - 1) * s.dilation_h;
  const int64_t reach_w = (s.kernel_w - 1) * s.dilation_w;
  t.pad_front = reach_d - s.pad_front, t.pad_back = reach_d - s.pad_back;
  t.pad_top = reach_h - s.pad_top, t.pad_bottom = reach_h - s.pad_bottom;
  t.pad_left = reach_w - s.pad_left, t.pad_right = reach_w - s.pad_right;
  return t;
}

}  // namespace camshaft::cpu
