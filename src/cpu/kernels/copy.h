// Moving elements: strided copies (transpose, slice, expand), concat, pad, gather. Elements are bytes of a given
// width; no kernel here looks at their type.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "camshaft/dtype.h"

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

  /// Whether the whole copy is one block of consecutive bytes, which a view would do instead.
  bool is_plain() const { return kind_ == Kind::rows && dims_.size() <= 1; }

 private:
  enum class Kind : uint8_t { empty, rows, fill, transpose, strided };

  void run_items(int64_t begin, int64_t end, const char* in, char* out) const;

  Kind kind_ = Kind::empty;
  int64_t width_ = 1;
  // Outer dims first; strides in bytes. The last one (transpose: the last two) is what one work item covers.
  std::vector<int64_t> dims_, in_, out_;
  int inner_ = 1;           // dims that belong to an item
  int64_t items_ = 0;       // number of items
  int64_t item_bytes_ = 0;  // written by an item
};

/// Several parts side by side along an axis: out[o, :] = parts[0][o, :] ++ parts[1][o, :] ++ …, dense tensors.
/// `bytes[k]`: of part k for one outer index (axis size × inner × width).
void concat(ThreadPool& pool, int64_t outer, int parts, const int64_t* bytes, const void* const* in, void* out);

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
  // Of one dim: `size` input indices from `first` on come behind `begin` others.
  struct Axis {
    int64_t begin = 0, first = 0, size = 1;
  };
  int64_t source(size_t d, int64_t i) const;  // the input index of output index i; -1 for the constant

  int64_t width_;
  PadMode mode_;
  std::vector<int64_t> out_dims_, in_strides_;
  std::vector<Axis> axes_;
  int64_t run_begin_ = 0, run_end_ = 0;  // output indices of the last dim that are consecutive in the input
  int64_t rows_ = 0;
};

/// out[o, k, :] = in[o, indices[k], :] for dense in [outer, size, inner] and out [outer, count, inner];
/// `inner_bytes` = inner × width. Negative indices count from the end.
struct Gather {
  int64_t outer = 1, size = 0, inner_bytes = 0, count = 0;

  /// `index_type`: i64 or i32. Throws Error(invalid_argument) that names the first index outside [-size, size), before
  /// anything is written.
  void run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const;
};

/// out[p] = in[p with its coordinate along `axis` replaced by indices[p]], p over `index_dims`; dense tensors.
struct GatherElements {
  int64_t width = 4;
  std::vector<int64_t> dims, index_dims;
  int axis = 0;

  /// Errors as Gather::run.
  void run(ThreadPool& pool, const void* in, const void* indices, DType index_type, void* out) const;
};

}  // namespace camshaft::cpu
