#include <algorithm>

#include "backends/cpu/kernels/conv/grouped_conv.h"
#include "backends/cpu/kernels/tile_traits.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

namespace {

// fn(packed index, index in ONNX order, or -1 for a filler) for every packed float of units [begin, end).
template <class Fn>
void for_packed(const GroupedWeights& w, int64_t begin, int64_t end, Fn&& fn) {
  const int64_t outputs = w.group_outputs(), together = w.together(), points = w.lines * w.kernel_w;
  int64_t at = begin * w.vectors() * w.vector_floats();
  for (int64_t u = begin; u < end; ++u) {
    for (int64_t v = 0; v < w.vectors(); ++v) {
      for (int64_t line = 0; line < w.lines; ++line) {
        for (int64_t c = 0; c < w.group_channels; ++c) {
          for (int64_t j = 0; j < w.kernel_w; ++j) {
            for (int64_t lane = 0; lane < w.lanes; ++lane, ++at) {
              const int64_t o = v * w.lanes + lane, channel = u * together * outputs + o;
              const bool real = o < together * outputs && channel < w.out_channels;
              fn(at, real ? (channel * w.group_channels + c) * points + line * w.kernel_w + j : -1);
            }
          }
        }
      }
    }
  }
}

void pack_units(const GroupedWeights& w, int64_t begin, int64_t end, const float* oihw, float* packed) {
  for_packed(w, begin, end, [&](int64_t at, int64_t from) { packed[at] = from < 0 ? 0.0f : oihw[from]; });
}

}  // namespace

int64_t GroupedWeights::together() const {
  return std::max<int64_t>(1, lanes / std::max<int64_t>(1, std::max(group_outputs(), group_channels)));
}

GroupedWeights grouped_weights(int64_t out_channels, int64_t group_channels, int64_t lines, int64_t kernel_w,
                               int64_t groups) {
  return {out_channels, group_channels, lines, kernel_w, groups, tile_traits().lanes()};
}

void pack_grouped_weights(const GroupedWeights& w, const float* oihw, float* packed) {
  pack_units(w, 0, w.units(), oihw, packed);
}

void pack_grouped_weights(const GroupedWeights& w, const float* oihw, float* packed, ThreadPool& pool) {
  pool.parallel_for(w.units(), 1, [&](int64_t begin, int64_t end) { pack_units(w, begin, end, oihw, packed); });
}

void unpack_grouped_weights(const GroupedWeights& w, const float* packed, float* oihw) {
  for_packed(w, 0, w.units(), [&](int64_t at, int64_t to) {
    if (to >= 0) oihw[to] = packed[at];
  });
}

}  // namespace camshaft::cpu
