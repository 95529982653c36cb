// The reference evaluation of rows_to_maps and map_entries.
#include "ir/ops/map.h"

#include "base/work_scope.h"
#include "ir/ops/shape_rules.h"
#include "reference/elements.h"
#include "reference/ml/lookup.h"

namespace camshaft::ops {

namespace {

/// The elements of each of `rows` rows at `columns`: [rows, columns.size()].
Tensor pick(const Tensor& x, int64_t rows, int64_t row_size, const std::vector<int64_t>& columns) {
  Tensor out(x.dtype(), {rows, static_cast<int64_t>(columns.size())});
  visit_storage(x.dtype(), [&]<class T>(const T&) {
    const T* from = x.as<T>();
    T* to = out.as_mutable<T>();
    PacedCancellation cancellation;
    for (int64_t row = 0; row < rows; ++row, from += row_size)
      for (const int64_t column : columns) {
        cancellation.did(1);
        write_element(*to++, from[column]);
      }
  });
  return out;
}

Tensor pick(const Tensor& list, const std::vector<int64_t>& order) {
  return pick(list, 1, list.size(), order).reshaped({static_cast<int64_t>(order.size())});
}

}  // namespace

std::vector<Tensor> RowsToMaps::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const int64_t row_size = x.dims().back();
  const int64_t rows = x.rank() == 2 ? x.dims()[0] : 1;
  if (context.input(1).size() != row_size)
    fail_rule("{} keys do not fit rows of {} values", context.input(1).size(), row_size);
  const std::vector<int64_t> order = order_of_keys(context.input(1), true);
  check_fits_memory(DType::sequence, {rows, 3});  // each is a map of two lists, whatever is in them
  // All maps share their keys, and the memory of their values.
  const Tensor keys = pick(context.input(1), order);
  const Tensor values = pick(x, rows, row_size, order);
  const auto count = static_cast<int64_t>(order.size());
  const size_t bytes = rows == 0 ? 0 : values.bytes() / static_cast<size_t>(rows);
  std::vector<Tensor> maps;
  maps.reserve(static_cast<size_t>(rows));
  PacedCancellation cancellation;
  for (int64_t row = 0; row < rows; ++row) {
    cancellation.did(16);  // some hundred nanoseconds
    maps.push_back(Tensor::map(
        keys,
        Tensor(x.dtype(), {count}, values.span().subspan(static_cast<size_t>(row) * bytes, bytes), values.owner())));
  }
  return {Tensor::sequence(std::move(maps))};
}

std::vector<Tensor> MapEntries::evaluate(const EvalContext& context) const {
  const Tensor& keys = context.input(0).element(0);
  const Tensor& values = context.input(0).element(1);
  if (keys.size() != values.size()) fail_rule("a map has {} keys and {} values", keys.size(), values.size());
  const std::vector<int64_t> order = order_of_keys(keys, true);
  return {pick(keys, order), pick(values, order)};
}

}  // namespace camshaft::ops
