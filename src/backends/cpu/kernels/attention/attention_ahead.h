// Brings the operands of the next problem near while one is computed. Internal to the kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/cpu/kernels/attention/attention.h"

namespace camshaft::cpu {

/// Rows of a head are short and lie far apart, so that the processor's own prefetcher does not follow: the 49 keys of a
/// window in 3.6 MB of projections waited for L3 for a fifth of the time.
class Ahead {
 public:
  Ahead() = default;
  /// The operands of problem `o`; rows of the three are fetched in turn.
  Ahead(const AttentionArgs& a, int64_t o) {
    place(0, a.query, a.query.column == 1 ? a.queries : 0, a.size, o);
    place(1, a.key, a.key.column == 1 ? a.keys : 0, a.size, o);
    place(2, a.value, a.value.column == 1 ? a.keys : 0, a.value_size, o);
  }
  /// What lies outside of L2 together repays it; what lies in it was 8 % slower with it.
  static bool repays(const AttentionArgs& a) {
    constexpr int64_t least_floats = 512 * 1024;
    return a.outer > 1 && a.outer * (a.queries * a.size + a.keys * (a.size + a.value_size)) > least_floats;
  }
  /// A few lines; called once a register tile, for a burst of prefetches would be waited for.
  void fetch() {
    for (int64_t lines = 0; lines < kLines && part_ < parts_.size();) {
      const Part& part = parts_[part_];
      if (row_ >= part.rows) {
        ++part_;
        row_ = 0;
        continue;
      }
      const float* from = part.data + part.offsets[row_++];
      for (int64_t i = 0; i < part.floats; i += kLineFloats, ++lines) __builtin_prefetch(from + i, 0, 2);
    }
  }

 private:
  static constexpr int64_t kLines = 24, kLineFloats = 16;
  struct Part {
    const float* data = nullptr;
    const int64_t* offsets = nullptr;
    int64_t rows = 0, floats = 0;
  };
  std::array<Part, 3> parts_ = {};
  size_t part_ = 0;
  int64_t row_ = 0;

  void place(size_t i, const AttentionOperand& operand, int64_t rows, int64_t floats, int64_t o) {
    parts_[i] = {operand.data + operand.outer[o], operand.rows, rows, floats};
  }
};

}  // namespace camshaft::cpu
