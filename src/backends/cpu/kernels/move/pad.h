// Padding and cropping, whatever the elements' type.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace camshaft::cpu {

enum class PadMode : uint8_t {
  constant,
  reflect,  ///< without repeating the edge
  edge,
  wrap,
};

/// Pads (or, with negative amounts, crops) a dense tensor to a dense tensor.
class Pad {
 public:
  /// `before`, `after`: elements added to each dim. `width` as in StridedCopy, at most 8. Throws
  /// Error(invalid_argument) where the output would have a negative size, or padding other than constant has no
  /// element to take.
  Pad(int64_t width, const std::vector<int64_t>& dims, const std::vector<int64_t>& before,
      const std::vector<int64_t>& after, PadMode mode);

  /// `value`: one element, for PadMode::constant; may be null, for zero.
  void run(ThreadPool& pool, const void* in, void* out, const void* value = nullptr) const;

  const std::vector<int64_t>& out_dims() const { return out_dims_; }

 private:
  // Of one dim, or of several that are walked as one: `size` input indices from `first` on come behind `begin` others;
  // `out` in all.
  struct Axis {
    int64_t begin = 0, first = 0, size = 1, out = 1, stride = 1;
  };
  static bool is_whole(const Axis& axis, const Axis& before);  // neither padded nor cropped
  void merge();
  template <class T>
  void run_rows(int64_t begin, int64_t end, const char* in, char* out, const char* constant) const;
  int64_t source(size_t d, int64_t i) const;  // the input index of output index i; -1 for the constant

  int64_t width_;
  PadMode mode_;
  std::vector<int64_t> out_dims_;
  std::vector<Axis> axes_;
  int64_t unit_ = 1;                     // elements that the last axis counts as one; 1 for PadMode::constant
  int64_t run_begin_ = 0, run_end_ = 0;  // output indices of the last dim that are consecutive in the input
  int64_t rows_ = 0;
};

}  // namespace camshaft::cpu
