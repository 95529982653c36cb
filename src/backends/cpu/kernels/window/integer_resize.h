// Linear and cubic resizing of integers: sums in double precision, rounded once, half to even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// [images, depth, height, width, inner], dense; inner: the channels of pixels, 1 where they are images of their own.
/// Sums are made in the order of the axes.
struct IntegerResize {
  static constexpr int64_t most_axes = 3;
  /// Output i of the axis is the sum over k < taps of weight[i * taps + k] times the input at index[i * taps + k], an
  /// index of -1 standing for what lies outside.
  struct Axis {
    int64_t in = 1, taps = 1;
    std::vector<int32_t> index{0};
    std::vector<double> weight{1.0};
    int64_t out() const { return static_cast<int64_t>(index.size()) / taps; }
    bool has_one() const { return in == 1 && out() == 1; }
  };
  int64_t images = 0, inner = 1;
  Axis depth, height, width;
  double outside = 0;  ///< what is there

  size_t workspace_bytes(int threads) const;
  /// Of integers of 8 to 32 bits. Results beyond the type's range become its ends.
  void run(ThreadPool& pool, DType dtype, const void* in, void* out, std::byte* workspace) const;
};

}  // namespace camshaft::cpu
