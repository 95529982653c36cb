// The reference evaluation of what a decoder's step does to its caches.
#include "ir/ops/paged_update.h"

#include "base/pieces.h"
#include "ir/ops/shape_rules.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

std::vector<double> row_of(const Tensor& matrix, int64_t row) {
  const int64_t width = matrix.dims()[1];
  std::vector<double> values(static_cast<size_t>(width));
  load_elements(matrix.dtype(), matrix.data(), row * width, 1, width, values.data());
  return values;
}

// Turns the heads that a row has.
void turn(const PagedUpdate& op, std::vector<double>& row, int64_t size, const std::vector<double>& cosines,
          const std::vector<double>& sines) {
  const auto half = static_cast<size_t>(op.rotated / 2), step = size_t{op.interleaved ? 2U : 1U};
  const size_t second = op.interleaved ? 1 : half;
  for (size_t head = 0; head + static_cast<size_t>(size) <= row.size(); head += static_cast<size_t>(size))
    for (size_t i = 0; i < half; ++i) {
      double &a = row[head + i * step], &b = row[head + i * step + second];
      const double turned = a * cosines[i] - b * sines[i];
      b = b * cosines[i] + a * sines[i];
      a = turned;
    }
}

}  // namespace

std::vector<Tensor> PagedUpdate::evaluate(const EvalContext& context) const {
  const Tensor &query = context.input(in_query), &key = context.input(in_key), &value = context.input(in_value);
  const Tensor &cosine = context.input(in_cosine), &sine = context.input(in_sine);
  Tensor turned(query.dtype(), query.dims()), keys = context.input(in_keys).copy(),
                                              values = context.input(in_values).copy();
  const Dims& dims = keys.dims();
  const int64_t tokens = query.dims()[0], size = dims[3];
  const std::vector<int64_t> slots = context.input(in_slots).to_ints();
  if (key.dims() != Dims{tokens, dims[2] * size} || value.dims() != Dims{tokens, dims[2] * values.dims()[3]} ||
      query.dims()[1] != (Dim(heads) * Dim(size)).value() || cosine.dims() != Dims{tokens, rotated / 2} ||
      sine.dims() != cosine.dims() || static_cast<int64_t>(slots.size()) != tokens || rotated > size ||
      !std::equal(dims.begin(), dims.begin() + 3, values.dims().begin()))
    fail_rule(
        "the operands of an update of caches do not fit: query {}, key {}, value {}, angles {} and {}, {} slots, "
        "caches {} and {}",
        to_string(query.dims()), to_string(key.dims()), to_string(value.dims()), to_string(cosine.dims()),
        to_string(sine.dims()), slots.size(), to_string(dims), to_string(values.dims()));
  const int64_t places = dims[0] * dims[1];
  for (size_t t = 0; t < slots.size(); ++t)
    if (slots[t] >= places) fail_rule("row {} goes to slot {} of {}", t, slots[t], places);
  std::byte *query_to = turned.size() > 0 ? turned.mutable_data() : nullptr,
            *key_to = keys.size() > 0 ? keys.mutable_data() : nullptr,
            *value_to = values.size() > 0 ? values.mutable_data() : nullptr;
  const auto put = [](const Tensor& like, std::byte* to, int64_t row, const std::vector<double>& elements) {
    const auto width = static_cast<int64_t>(elements.size());
    if (width > 0) store_elements(like.dtype(), to, row * width, 1, width, elements.data());
  };
  PacedCancellation cancellation;
  for (int64_t t = 0; t < tokens; ++t) {
    const std::vector<double> cosines = row_of(cosine, t), sines = row_of(sine, t);
    std::vector<double> row = row_of(query, t);
    cancellation.did(1 + static_cast<int64_t>(row.size()));
    turn(*this, row, size, cosines, sines);
    put(turned, query_to, t, row);
    const int64_t slot = slots[static_cast<size_t>(t)];
    if (slot < 0) continue;
    row = row_of(key, t);
    turn(*this, row, size, cosines, sines);
    // As two operators would: a turned key has the key's type before it has the cache's.
    Tensor rounded(key.dtype(), {1, static_cast<int64_t>(row.size())});
    if (!row.empty()) put(rounded, rounded.mutable_data(), 0, row);
    put(keys, key_to, slot, row_of(rounded, 0));
    put(values, value_to, slot, row_of(value, t));
  }
  return {std::move(turned), std::move(keys), std::move(values)};
}

}  // namespace camshaft::ops
