// Transposes, slices and expansions: copies between strided tensors, whatever the type of their elements.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/move/block_permutation.h"
#include "backends/cpu/kernels/move/strided.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// out[i…] = in[i…] over N dims with any strides: transposes of any rank, slices with any step, expansion (input stride
/// 0), writes into a part of a larger tensor. Built once a shape; `run` allocates nothing.
///
///     // transpose [n, c, s] -> [n, s, c]; the dims are those of the output
///     StridedCopy copy(4, {n, s, c}, {c * s, 1, s}, {s * c, c, 1});
class StridedCopy {
 public:
  /// `width`: bytes an element, 1, 2, 4, 8 or 16. Strides in elements, any rank; output strides empty: dense row-major.
  /// Throws Error(internal) for lists of different length or another width, Error(unsupported) for more than
  /// most_strided_dims dims that cannot be merged.
  StridedCopy(int64_t width, const std::vector<int64_t>& dims, const std::vector<int64_t>& in_strides,
              const std::vector<int64_t>& out_strides = {});

  /// `in`, `out`: element (0, …, 0); with negative strides that is not the lowest address. They do not overlap.
  void run(ThreadPool& pool, const void* in, void* out) const;
  /// On this thread alone.
  void run(const void* in, void* out) const;

  /// Whether the whole copy is one block of consecutive bytes, which a view would do instead.
  bool is_plain() const { return kind_ == Kind::rows && dims_.size() <= 1; }

 private:
  enum class Kind : uint8_t { empty, rows, fill, transpose, permute, strided };

  bool find_permutation(const StridedSpace& space);
  void find_repeats();
  void lengthen_batches();
  void run_items(int64_t begin, int64_t end, const char* in, char* out) const;
  void run_blocks(int64_t begin, int64_t end, const char* in, char* out) const;
  void run_shared_blocks(ThreadPool& pool, const char* in, char* out) const;
  std::pair<int64_t, int64_t> block_at(int64_t block) const;  // offsets in the input and in the result

  Kind kind_ = Kind::empty;
  int64_t width_ = 1;
  // Outer dims first; strides in bytes. The last one (transpose: the last two) is what one work item covers.
  std::vector<int64_t> dims_, in_, out_;
  int inner_ = 1;  // dims that belong to an item
  BlockPermutation permutation_;
  bool streams_ = false;    // rows are written past the caches
  int64_t items_ = 0;       // number of items
  int64_t item_bytes_ = 0;  // written by an item
  // A block of the output that follows itself `repeats_` times: made once, then copied. None or one, behind the first
  // `block_dims_` dims and the one that repeats it.
  std::vector<StridedCopy> block_;
  size_t block_dims_ = 0;
  int64_t blocks_ = 0, block_bytes_ = 0, repeats_ = 0;
};

}  // namespace camshaft::cpu
