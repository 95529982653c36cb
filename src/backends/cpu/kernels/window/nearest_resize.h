// Resizing to the nearest element, of any number of axes and whatever the elements' type.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// out[i, j, …] = in[table_0[i], table_1[j], …]. Built once a shape; `run` allocates nothing.
class NearestResize {
 public:
  /// `tables`: one an axis; an empty one stands for an axis that keeps its size. `width`: bytes an element. Rows (the
  /// last axis) lie `in_pitch` and `out_pitch` elements apart, which are more than they have where the tensor is a
  /// slice. Throws Error(internal) for an index outside of its axis.
  NearestResize(int64_t width, const std::vector<int64_t>& dims, std::vector<std::vector<int32_t>> tables,
                int64_t in_pitch, int64_t out_pitch);

  void run(ThreadPool& pool, const void* in, void* out) const;

 private:
  void run_rows(int64_t begin, int64_t end, const char* in, char* out) const;

  int64_t element_ = 1, block_ = 1;  // bytes: an element, and what lies together behind the last axis that is resized
  // Axes up to that one; strides in bytes.
  std::vector<std::vector<int32_t>> tables_;
  std::vector<int64_t> sizes_, in_, out_;
  int64_t rows_ = 1, length_ = 1;  // of the last of them: the input's size
  bool rises_ = true;              // its table never falls
  bool doubles_ = false;           // its table takes each element twice
  bool doubles_rows_ = false;      // and so does that of the rows, of single elements
};

}  // namespace camshaft::cpu
