// What the shape rules of several families share. Internal to ops/.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "ir/graph.h"

namespace camshaft::ops {

template <class... Args>
[[noreturn]] void fail_rule(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

/// True when no values of the symbols make the two equal.
inline bool provably_different(const Dim& a, const Dim& b) {
  if (a == b) return false;
  const Dim difference = a - b;
  const auto low = difference.lower_bound(), high = difference.upper_bound();
  return (low && *low > 0) || (high && *high < 0);
}

/// Of two sizes that must be equal, the one that says more; throws Error(invalid_argument) when they cannot be equal.
inline Dim same_size(const Dim& a, const Dim& b, const char* what, size_t axis) {
  if (provably_different(a, b)) fail_rule("{}: axis {} has size {} here and {} there", what, axis, a.str(), b.str());
  return b.is_constant() ? b : a;
}

/// Throws Error(invalid_argument) unless 0 <= axis < rank.
inline void check_axis(int64_t axis, int64_t rank) {
  if (axis < 0 || axis >= rank) fail_rule("axis {} does not exist: the tensor has {} axes", axis, rank);
}

/// `index` counted from the front. Throws Error(invalid_argument) naming index and axis when it is not in
/// [-size, size).
inline int64_t checked_index(int64_t index, int64_t size, int64_t axis) {
  if (index < -size || index >= size) fail_rule("index {} is out of range for axis {} of size {}", index, axis, size);
  return index < 0 ? index + size : index;
}

/// Throws Error(invalid_argument) unless the dtype is i32 or i64.
inline void check_index_dtype(DType dtype, const char* what) {
  if (dtype != DType::i64 && dtype != DType::i32) fail_rule("{} must be i64 or i32, not {}", what, to_string(dtype));
}

/// Contents above this many elements are not followed: shapes are short, and tables should stay tensors.
constexpr size_t max_content_elements = 4096;

/// The elements of input i if it is there, an integer or bool tensor of rank 0 or 1, and known.
inline std::optional<std::vector<Dim>> known_content(const InferContext& context, size_t i) {
  if (!context.has(i) || context.rank(i) > 1) return std::nullopt;
  auto content = context.content(i);
  if (content && content->size() > max_content_elements) return std::nullopt;
  return content;
}

}  // namespace camshaft::ops
