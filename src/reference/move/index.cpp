// The reference evaluation of gather_nd, scatter_elements, tensor_scatter, reverse_sequence and cumulative.
#include "ir/ops/index.h"

#include <algorithm>

#include "base/pieces.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"
#include "reference/elements.h"
#include "reference/move/number_lists.h"
#include "reference/move/scatter_combine.h"

namespace camshaft::ops {

namespace {

constexpr int64_t indices_a_piece = 1 << 14;

}  // namespace

std::vector<Tensor> GatherND::evaluate(const EvalContext& context) const {
  const Tensor x = unpack_subbyte(context.input(0));
  const Tensor& indices = context.input(1);
  const Dims &from_dims = x.dims(), &index_dims = indices.dims();
  const auto batch_axes = static_cast<size_t>(batch_dims);
  if (!std::equal(from_dims.begin(), from_dims.begin() + batch_dims, index_dims.begin()))
    fail_rule("the first {} axes of input {} and indices {} must be equal", batch_dims, to_string(from_dims),
              to_string(index_dims));
  const int64_t depth = index_dims.back();
  const size_t split = batch_axes + static_cast<size_t>(depth);
  const int64_t batches = product(from_dims, 0, batch_axes), inner = product(from_dims, split, from_dims.size());
  const int64_t slices = product(from_dims, batch_axes, split);
  const int64_t count = product(index_dims, 0, index_dims.size() - 1);
  const int64_t a_batch = batches == 0 ? 0 : count / batches;
  const MemoryClaim claim = claim_numbers(indices.size());
  const std::vector<int64_t> raw = indices.to_ints();
  Dims dims(index_dims.begin(), index_dims.end() - 1);
  dims.insert(dims.end(), from_dims.begin() + static_cast<int64_t>(split), from_dims.end());
  Tensor out(x.dtype(), dims);
  visit_storage(x.dtype(), [&]<class T>(const T&) {
    const T* from = x.as<T>();
    T* to = out.as_mutable<T>();
    const int64_t grain = indices_a_piece / std::max<int64_t>(inner, 1);
    for_pieces(context.pool, count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t slice = 0;
        for (int64_t a = 0; a < depth; ++a) {
          const int64_t size = from_dims[batch_axes + static_cast<size_t>(a)];
          slice = slice * size + checked_index(raw[static_cast<size_t>(i * depth + a)], size, batch_dims + a);
        }
        copy_elements(from + (i / a_batch * slices + slice) * inner, to + i * inner, inner);
      }
    });
  });
  return {pack_subbyte(out, context.input(0).dtype())};
}

std::vector<Tensor> ScatterElements::evaluate(const EvalContext& context) const {
  const Tensor &indices = context.input(1), &updates = context.input(2);
  const Dims &dims = context.input(0).dims(), &counts = indices.dims();
  const auto at = static_cast<size_t>(axis);
  if (updates.dims() != counts)
    fail_rule("the updates have shape {}, the indices {}", to_string(updates.dims()), to_string(counts));
  for (size_t i = 0; i < counts.size(); ++i)
    if (i != at && counts[i] > dims[i])
      fail_rule("the indices have {} elements on axis {}, the input {}", counts[i], i, dims[i]);
  if (updates.size() == 0) return {context.input(0).owned()};  // any number of empty lines
  const MemoryClaim claim = claim_numbers(indices.size());
  const std::vector<int64_t> positions = indices.to_ints();
  const Dims strides = row_major_strides(dims);
  const int64_t length = counts[at], inner = product(counts, at + 1, counts.size());
  const int64_t lines = product(counts, 0, at) * inner;
  // Lines along the axis never meet: threads share out the lines, and each runs along its line in order.
  const auto scatter = [&](auto&& apply) {
    for_pieces(context.pool, lines, indices_a_piece / std::max<int64_t>(length, 1), [&](int64_t begin, int64_t end) {
      PacedCancellation cancellation;
      for (int64_t line = begin; line < end; ++line) {
        const int64_t source = line / inner * length * inner + line % inner;
        int64_t target = 0, rest = line;
        for (size_t a = counts.size(); a-- > 0;) {
          if (a == at) continue;
          target += rest % counts[a] * strides[a];
          rest /= counts[a];
        }
        for (int64_t i = 0; i < length; ++i) {
          cancellation.did(1);
          const int64_t from = source + i * inner;
          apply(target + checked_index(positions[static_cast<size_t>(from)], dims[at], axis) * strides[at], from);
        }
      }
    });
  };
  if (kind == ScatterKind::assign) {
    Tensor out = unpack_subbyte(context.input(0)).copy();
    const Tensor given = unpack_subbyte(updates);
    visit_storage(out.dtype(), [&]<class T>(const T&) {
      T* to = out.as_mutable<T>();
      const T* from = given.as<T>();
      scatter([&](int64_t target, int64_t source) { write_element(to[target], from[source]); });
    });
    return {pack_subbyte(out, context.input(0).dtype())};
  }
  Tensor out(context.input(0).dtype(), dims);
  const MemoryClaim wide = claim_numbers(out.size() + updates.size());
  with_wide_type(out.dtype(), [&]<class T>(const T&) {
    std::vector<T> to(static_cast<size_t>(out.size())), from(static_cast<size_t>(updates.size()));
    load_elements(out.dtype(), context.input(0).data(), 0, 1, out.size(), to.data());
    load_elements(out.dtype(), updates.data(), 0, 1, updates.size(), from.data());
    scatter([&](int64_t target, int64_t source) {
      T& t = to[static_cast<size_t>(target)];
      t = combine(kind, t, from[static_cast<size_t>(source)]);
    });
    store_elements(out.dtype(), out.mutable_data(), 0, 1, out.size(), to.data());
  });
  return {out};
}

std::vector<Tensor> TensorScatter::evaluate(const EvalContext& context) const {
  const Tensor update = unpack_subbyte(context.input(1));
  Tensor out = unpack_subbyte(context.input(0)).copy();
  const auto at = static_cast<size_t>(axis);
  const Dims& dims = out.dims();
  const int64_t size = dims[at], count = update.dims().at(at), inner = product(dims, at + 1, dims.size());
  Dims expected = dims;
  expected[at] = count;
  if (update.dims() != expected || count > size)
    fail_rule("an update of shape {} does not fit a cache of {}", to_string(update.dims()), to_string(dims));
  if (context.has(2) && context.input(2).size() != dims[0])
    fail_rule("{} write indices for a batch of {}", context.input(2).size(), dims[0]);
  if (update.size() == 0) return {pack_subbyte(out, context.input(0).dtype())};  // the batch may be of any size then
  std::vector<int64_t> starts(static_cast<size_t>(dims[0]), 0);
  if (context.has(2)) starts = context.input(2).to_ints();
  for (int64_t& start : starts) {
    if (circular) start = (start % size + size) % size;
    if (start < 0 || (!circular && start > size - count))
      fail_rule("{} positions from {} on do not lie in a cache of {}", count, start, size);
  }
  visit_storage(out.dtype(), [&]<class T>(const T&) {
    T* to = out.as_mutable<T>();
    const T* from = update.as<T>();
    const int64_t lines = product(dims, 0, at), a_batch = lines / dims[0];
    PacedCancellation cancellation;
    for (int64_t line = 0; line < lines; ++line) {
      cancellation.did(1 + count * inner);
      const int64_t start = starts[static_cast<size_t>(line / a_batch)], straight = std::min(count, size - start);
      copy_elements(from + line * count * inner, to + (line * size + start) * inner, straight * inner);
      copy_elements(from + (line * count + straight) * inner, to + line * size * inner, (count - straight) * inner);
    }
  });
  return {pack_subbyte(out, context.input(0).dtype())};
}

std::vector<Tensor> ReverseSequence::evaluate(const EvalContext& context) const {
  const Tensor x = unpack_subbyte(context.input(0));
  const Dims& dims = x.dims();
  const std::vector<int64_t> lengths = context.input(1).to_ints();
  const int64_t batch = dims[batch_first ? 0 : 1], time = dims[batch_first ? 1 : 0];
  if (static_cast<int64_t>(lengths.size()) != batch) fail_rule("{} lengths for a batch of {}", lengths.size(), batch);
  for (const int64_t length : lengths)
    if (length < 0 || length > time) fail_rule("a length of {} for sequences of {}", length, time);
  if (x.size() == 0) return {context.input(0).owned()};
  const int64_t inner = product(dims, 2, dims.size());
  const int64_t batch_stride = inner * (batch_first ? time : 1), time_stride = inner * (batch_first ? 1 : batch);
  Tensor out(x.dtype(), dims);
  visit_storage(x.dtype(), [&]<class T>(const T&) {
    const T* from = x.as<T>();
    T* to = out.as_mutable<T>();
    PacedCancellation cancellation;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      for (int64_t t = 0; t < time; ++t) {
        cancellation.did(inner);
        copy_elements(from + b * batch_stride + (t < length ? length - 1 - t : t) * time_stride,
                      to + b * batch_stride + t * time_stride, inner);
      }
    }
  });
  return {pack_subbyte(out, context.input(0).dtype())};
}

std::vector<Tensor> Cumulative::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const std::vector<int64_t> given = context.input(1).to_ints();
  if (given.size() != 1) fail_rule("the axis must be one number, not {}", given.size());
  int64_t axis = given[0] < 0 ? given[0] + x.rank() : given[0];
  check_axis(axis, x.rank());
  const auto at = static_cast<size_t>(axis);
  const int64_t size = x.dims()[at], inner = product(x.dims(), at + 1, x.dims().size());
  Tensor out(x.dtype(), x.dims());
  std::byte* to = out.mutable_data();
  const int64_t lines = out.size() == 0 ? 0 : out.size() / size;
  const int64_t grain =
      bit_width(x.dtype()) < 8 ? lines : std::max<int64_t>(1, indices_a_piece / std::max<int64_t>(size, 1));
  with_wide_type(x.dtype(), [&]<class T>(const T&) {
    for_pieces(context.pool, lines, grain, [&](int64_t begin, int64_t end) {
      std::vector<T> line(static_cast<size_t>(size));
      for (int64_t l = begin; l < end; ++l) {
        const int64_t first = l / inner * size * inner + l % inner;
        load_elements(x.dtype(), x.data(), first, inner, size, line.data());
        if (reverse) std::reverse(line.begin(), line.end());
        T total = kind == CumulativeKind::sum ? T{0} : T{1};
        for (T& element : line) {
          const T before = total;
          total = kind == CumulativeKind::sum ? sum_of(total, element) : product_of(total, element);
          element = exclusive ? before : total;
        }
        if (reverse) std::reverse(line.begin(), line.end());
        store_elements(x.dtype(), to, first, inner, size, line.data());
      }
    });
  });
  return {out};
}

}  // namespace camshaft::ops
