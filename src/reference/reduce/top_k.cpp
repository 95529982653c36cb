// The reference evaluation of top_k.
#include <algorithm>
#include <span>

#include "base/aligned_buffer.h"
#include "base/pieces.h"
#include "ir/ops/select.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

template <class T>
struct Ranked {
  T value;
  int64_t index;
};

// A strict weak order with NaN above everything; the lower index first among equals.
template <class T>
bool comes_first(const Ranked<T>& a, const Ranked<T>& b, bool largest) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) return a_nan == b_nan ? a.index < b.index : a_nan == largest;
  if (a.value == b.value) return a.index < b.index;
  return (a.value > b.value) == largest;
}

template <class T>
void select_first(std::span<Ranked<T>> row, int64_t k, bool largest) {
  PacedCancellation cancellation;  // a row may be all there is
  const auto before = [largest, &cancellation](const Ranked<T>& a, const Ranked<T>& b) {
    cancellation.did(1);
    return comes_first(a, b, largest);
  };
  const auto middle = row.begin() + k;
  // A heap of k elements is quickest while k is small; it costs log k an element.
  if (k * 16 < static_cast<int64_t>(row.size())) {
    std::partial_sort(row.begin(), middle, row.end(), before);
    return;
  }
  if (middle != row.end()) std::nth_element(row.begin(), middle, row.end(), before);
  std::sort(row.begin(), middle, before);
}

}  // namespace

std::vector<Tensor> TopK::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const auto at = static_cast<size_t>(axis);
  const int64_t size = x.dims().at(at);
  const std::vector<int64_t> asked = context.input(1).to_ints();
  if (asked.size() != 1) fail_rule("k must be one number, not {}", asked.size());
  const int64_t k = asked[0];
  if (k < 0 || k > size) fail_rule("the {} elements asked for are not among the {} of axis {}", k, size, axis);
  const int64_t inner = product(x.dims(), at + 1, x.dims().size()), lines = product(x.dims(), 0, at) * inner;
  Dims dims = x.dims();
  dims[at] = k;
  Tensor values(x.dtype(), dims), indices(DType::i64, dims);
  std::byte* to = values.mutable_data();
  auto* to_index = indices.as_mutable<int64_t>();
  if (values.size() == 0) return {values, indices};
  // Two elements of a 4-bit type share a byte: no threads there.
  const int64_t grain = bit_width(x.dtype()) < 8 ? lines : std::max<int64_t>(1, 4096 / std::max<int64_t>(size, 1));
  with_wide_type(x.dtype(), [&]<class T>(const T&) {
    for_pieces(context.pool, lines, grain, [&](int64_t begin, int64_t end) {
      // Not vectors: a row may be all there is, and its memory counts in the budget and is not cleared.
      AlignedBuffer line_memory(static_cast<size_t>(size) * sizeof(T), "a row of top_k");
      AlignedBuffer row_memory(static_cast<size_t>(size) * sizeof(Ranked<T>), "a row of top_k with its indices");
      T* line = reinterpret_cast<T*>(line_memory.data());
      const std::span row(reinterpret_cast<Ranked<T>*>(row_memory.data()), static_cast<size_t>(size));
      PacedCancellation cancellation;
      for (int64_t l = begin; l < end; ++l) {
        const int64_t outer = l / inner, column = l % inner;
        load_elements(x.dtype(), x.data(), outer * size * inner + column, inner, size, line);
        for (int64_t i = 0; i < size; ++i) {
          cancellation.did(1);
          row[static_cast<size_t>(i)] = {line[i], i};
        }
        select_first(row, k, largest);
        const int64_t first = outer * k * inner + column;
        for (int64_t i = 0; i < k; ++i) {
          cancellation.did(1);
          line[i] = row[static_cast<size_t>(i)].value;
          to_index[first + i * inner] = row[static_cast<size_t>(i)].index;
        }
        store_elements(x.dtype(), to, first, inner, k, line);
      }
    });
  });
  return {values, indices};
}

}  // namespace camshaft::ops
