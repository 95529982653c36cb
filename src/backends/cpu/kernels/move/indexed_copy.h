// Copies along an index map some of whose indices leave the operand: windows with padding around them, rolls.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/move/strided_copy.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// out[i…] = in[j…], where j of axis d of `in` is start + Σ step · i over the axes of `out` that go along it. Beyond
/// the axis it is a fill value, or is taken modulo the axis' length. Built once a shape; `run` allocates nothing.
///
/// Of the axes along one of the operand's that is left, one stays inside a box, and the others are walked: for each of
/// their positions the box's part that lies in the operand is a StridedCopy, of which there are as many as there are
/// ways of being cut off.
class IndexedCopy {
 public:
  /// An axis of the result; along: -1 for none.
  struct Axis {
    int64_t size = 1, along = -1, step = 0, out_stride = 0;
  };
  /// An axis of the operand. `leaves`: some indices are not in [0, length).
  struct Source {
    int64_t start = 0, length = 1, stride = 0;
    bool leaves = false;
  };

  /// Strides in elements; `width` as in StridedCopy, at most 8. No axis of the result is empty, nor of the operand
  /// where indices wrap.
  IndexedCopy(int64_t width, const std::vector<Axis>& axes, const std::vector<Source>& sources, bool wraps);

  /// `value`: one element for what lies outside; null for zero.
  void run(ThreadPool& pool, const void* in, void* out, const void* value = nullptr) const;

  /// More axes of the operand that are left are not taken.
  static constexpr size_t most_left = 8;

 private:
  // Positions [begin, begin + count) of an axis of the box.
  struct Segment {
    int64_t begin = 0, count = 0;
    bool operator==(const Segment&) const = default;
  };
  using Pattern = std::vector<Segment>;
  // An axis of the operand that is left, and all positions of the walked axes along it. Offsets in bytes.
  struct Walk {
    int64_t free_size = 1, free_in = 0, free_out = 0;  // of the axis inside the box, strides in elements
    std::vector<int64_t> out;                          // by position
    std::vector<size_t> pattern;                       // by position: how the axis inside is cut
    std::vector<size_t> first;                         // by position: where its segments begin in `in`
    std::vector<int64_t> in;                           // where a segment is read
    std::vector<Pattern> patterns;
  };
  struct Job {
    StridedCopy copy;
    int64_t out = 0;
    bool fills = false;
    std::vector<size_t> segment;  // one a walk
  };
  // What to do for one combination of patterns.
  using Box = std::vector<Job>;

  Walk walk_of(const std::vector<Axis>& axes, int64_t d, const Source& source, bool keeps_axis) const;
  void cut(int64_t index, int64_t step, const Source& source, Walk& walk) const;
  Box box_of(const std::vector<const Pattern*>& patterns) const;
  template <class Run>
  void run_item(int64_t item, const char* in, char* out, const char* fill, Run&& run) const;

  int64_t width_;
  bool wraps_;
  int64_t start_ = 0;                     // bytes, along axes that are not left
  std::vector<int64_t> dims_, in_, out_;  // of the box: axes that are never cut
  std::vector<Walk> walks_;
  std::vector<Box> boxes_;
  int64_t items_ = 1, item_bytes_ = 0;
};

}  // namespace camshaft::cpu
