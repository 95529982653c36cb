// Tensors in host memory: constants, inputs and results of the reference evaluation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace camshaft {

/// Concrete sizes.
using Dims = std::vector<int64_t>;

/// Sizes whose product is larger are refused even beside a size of 0, so that strides, products of some of the sizes,
/// and sums of a few stay far from overflow. No memory holds as many elements.
constexpr int64_t most_tensor_elements = INT64_MAX / 64;

/// Product of sizes; 1 for a scalar. Throws Error(invalid_argument) for a negative size, and when the product of those
/// that are not 0 exceeds most_tensor_elements.
int64_t element_count(const Dims& dims);
/// Bytes that elements take in memory: byte_size(), and that of the objects of strings and containers.
size_t storage_bytes(DType dtype, int64_t count);
/// Throws what making a tensor of these sizes would throw: for results whose tables would be made before them.
void check_fits_memory(DType dtype, const Dims& dims);
/// "[2, 3]"
std::string to_string(const Dims& dims);

/// A dense row-major tensor. A value type whose bytes are shared: copies are cheap, and writers make their own buffer.
/// Elements of 4-bit and 2-bit types are packed, the first in a byte's low bits; strings are std::string objects.
///
/// Elements of containers are Tensor objects, which own what they hold (see owned()): of a sequence, of rank 1, its
/// values; of an optional, of rank 0, its value, undefined when it is empty; of a map, of shape [2], its keys and its
/// values, each of rank 1.
class Tensor {
 public:
  Tensor() = default;
  /// Zero-filled. Throws Error(out_of_memory) naming the size.
  Tensor(DType dtype, Dims dims);
  /// The same of any content, for who writes all of it: clearing takes as long. Objects are empty.
  static Tensor uncleared(DType dtype, Dims dims);
  /// A view of bytes that `owner` keeps alive (a mapped file, another tensor). Throws Error(internal) on a size
  /// mismatch.
  Tensor(DType dtype, Dims dims, std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  /// Dtype and dims of a constant whose bytes are not here: only a packed form is (see PackedConstants).
  static Tensor elided(DType dtype, Dims dims);

  /// From elements as they are stored: T is as wide as the dtype, or holds packed elements. Throws
  /// Error(internal) when the bytes do not fit the dims.
  template <class T>
  static Tensor of(DType dtype, Dims dims, const std::vector<T>& values);
  static Tensor scalar(DType dtype, double value);
  static Tensor from_ints(const std::vector<int64_t>& values);  ///< i64, 1-D
  // Containers; the elements are made to own their bytes.
  static Tensor sequence(std::vector<Tensor> elements);
  static Tensor optional(Tensor element);  ///< undefined: empty
  static Tensor map(Tensor keys, Tensor values);

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t size() const { return size_; }     ///< elements
  size_t bytes() const { return bytes_; }    ///< of the elements; strings count sizeof(std::string), and so on
  bool defined() const { return defined_; }  ///< false for a default-constructed tensor (an absent optional input)

  bool is_elided() const { return defined_ && data_ == nullptr && bytes_ > 0; }

  const std::byte* data() const { return data_; }
  /// For writing: only on a tensor that owns its bytes alone (just constructed); throws Error(internal) otherwise.
  std::byte* mutable_data();
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  template <class T>
  T* as_mutable() {
    return reinterpret_cast<T*>(mutable_data());
  }
  std::span<const std::byte> span() const { return {data_, bytes_}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// Element i of a container.
  const Tensor& element(int64_t i) const { return as<Tensor>()[i]; }

  /// The same elements in memory of their own.
  Tensor copy() const;
  /// Of strings that are all written: counts what they hold beyond their objects in the budget of the calling thread's
  /// WorkScope, if it has one, as long as these elements live. How many bytes that is. Throws Error(out_of_memory).
  size_t claim_texts();
  /// This tensor if it keeps its bytes alive, else a copy: a view may be of memory that is soon used for something
  /// else.
  Tensor owned() const { return defined_ && !owner_ ? copy() : *this; }
  /// The same bytes with other dims of the same element count.
  Tensor reshaped(Dims dims) const;
  /// Elements of any numeric dtype as doubles / integers (floats truncate; NaN and what exceeds 64 bits
  /// throws Error(invalid_model)). For small tensors and tests.
  std::vector<double> to_doubles() const;
  std::vector<int64_t> to_ints() const;

  /// Same dtype, dims and bytes (NaNs equal when their bits are), or equal strings or elements.
  bool operator==(const Tensor& other) const;

 private:
  Tensor(DType dtype, Dims dims, bool clear);

  DType dtype_ = DType::f32;
  bool defined_ = false;
  bool writable_ = false;
  Dims dims_;
  int64_t size_ = 0;
  size_t bytes_ = 0;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

namespace detail {
[[noreturn]] void throw_element_mismatch(const Tensor& tensor, size_t given);
}

template <class T>
Tensor Tensor::of(DType dtype, Dims dims, const std::vector<T>& values) {
  Tensor t(dtype, std::move(dims));
  if (t.bytes() != values.size() * sizeof(T)) detail::throw_element_mismatch(t, values.size() * sizeof(T));
  if constexpr (!std::is_trivially_copyable_v<T>) {
    for (size_t i = 0; i < values.size(); ++i) t.as_mutable<T>()[i] = values[i];
  } else {
    if (t.bytes() > 0) __builtin_memcpy(t.mutable_data(), values.data(), t.bytes());
  }
  return t;
}

}  // namespace camshaft
