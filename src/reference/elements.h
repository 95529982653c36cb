// Elements as bytes: how operators that only move elements treat all dtypes alike. Internal to
// reference/.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/work_scope.h"
#include "base/written_texts.h"
#include "ir/tensor.h"

namespace camshaft::ops {

/// Calls visit(T{}) with a type as large as one element: an unsigned integer, or std::string. Not for packed dtypes.
template <class Visit>
void visit_storage(DType dtype, Visit&& visit) {
  if (dtype == DType::string) return visit(std::string());
  switch (bit_width(dtype)) {
    case 8:
      return visit(uint8_t{});
    case 16:
      return visit(uint16_t{});
    case 32:
      return visit(uint32_t{});
    case 64:
      return visit(uint64_t{});
    default:
      throw Error(ErrorCode::internal, "packed elements have no storage type; unpack them first");
  }
}

/// Tensors of packed dtypes (4 and 2 bits) with one element a byte (as u8, in the low bits); any other as it is.
Tensor unpack_subbyte(const Tensor& tensor);
/// The inverse: `bytes` with `dtype`, packed if that is a packed dtype.
Tensor pack_subbyte(const Tensor& bytes, DType dtype);

/// With a cancellation_point() once in a while in long runs.
template <class T>
void copy_elements(const T* from, T* to, int64_t count) {
  constexpr int64_t most_at_once = int64_t{1} << 19;
  for (; count > most_at_once; from += most_at_once, to += most_at_once, count -= most_at_once) {
    cancellation_point();
    copy_elements(from, to, most_at_once);
  }
  if constexpr (std::is_trivially_copyable_v<T>) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else {
    for (int64_t i = 0; i < count; ++i) write_element(to[i], from[i]);
  }
}

}  // namespace camshaft::ops
