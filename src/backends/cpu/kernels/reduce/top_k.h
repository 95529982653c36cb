// The k largest or smallest of each line.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Along the middle of dims [outer, axis, inner], of any type of with_type.h: values and indices [outer, k, inner], in
/// order. Of equal elements the lower index comes first; NaN counts as larger than any number. 0 <= k <= axis < 2^31.
struct TopK {
  int64_t outer = 1, axis = 1, inner = 1, k = 1;
  bool largest = true;

  /// Scratch memory for `threads` threads, 64-byte aligned.
  int64_t workspace_bytes(DType dtype, int threads) const;
  /// `values` and `indices`: null when not wanted.
  void run(ThreadPool& pool, DType dtype, const void* x, void* values, int64_t* indices, void* workspace) const;

 private:
  int64_t candidates() const;
  bool ranks_lines(int64_t width) const;
  bool sorts_lines(int64_t width) const;
  int64_t entries(int64_t width) const;
  bool side_by_side() const;
  int64_t columns(int64_t width) const;
  int64_t thread_bytes(int64_t width) const;
  template <class T>
  void run_as(ThreadPool& pool, const T* x, T* values, int64_t* indices, void* workspace) const;
};

}  // namespace camshaft::cpu
