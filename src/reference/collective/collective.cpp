// The reference evaluation of collectives: every rank's operand whole, and then the definition.
#include "ir/ops/collective.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/communicator.h"
#include "base/work_scope.h"
#include "ir/ops/shape_rules.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

// By rank; undefined of those who bring nothing.
std::vector<Tensor> gathered_operands(const Collective& op, const Tensor& x) {
  Communicator* const communicator = CommunicatorScope::current();
  if (!communicator) return std::vector<Tensor>(static_cast<size_t>(op.ranks), x);
  if (communicator->size() != op.ranks)
    fail_rule("the communicator is of {} ranks, the model of {}", communicator->size(), op.ranks);
  std::vector<Tensor> all;
  for (int64_t r = 0; r < op.ranks; ++r) all.emplace_back(x.dtype(), x.dims());
  const bool brings = op.kind != CollectiveKind::broadcast || communicator->rank() == op.root;
  communicator->exchange(described(op, x.dtype(), x.dims()), brings ? x.span() : std::span<const std::byte>(),
                         x.bytes(), [&](int rank, size_t offset, std::span<const std::byte> part) {
                           if (!part.empty())
                             std::memcpy(all[static_cast<size_t>(rank)].mutable_data() + offset, part.data(),
                                         part.size());
                         });
  return all;
}

int64_t own_rank(const Collective&) {
  const Communicator* communicator = CommunicatorScope::current();
  return communicator ? communicator->rank() : 0;
}

template <class T>
T combined_numbers(CollectiveReduction reduction, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (reduction == CollectiveReduction::min || reduction == CollectiveReduction::max)
      if (a != a || b != b) return std::numeric_limits<T>::quiet_NaN();
  }
  // Integers wrap.
  using Wide = std::conditional_t<std::is_floating_point_v<T>, T, uint64_t>;
  switch (reduction) {
    case CollectiveReduction::prod:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case CollectiveReduction::min:
      return std::min(a, b);
    case CollectiveReduction::max:
      return std::max(a, b);
    default:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

Tensor reduced_operands(const Collective& op, const std::vector<Tensor>& all) {
  Tensor out(all[0].dtype(), all[0].dims());
  const DType dtype = out.dtype();
  with_wide_type(dtype, [&](auto wide) {
    using T = decltype(wide);
    std::vector<T> sum(static_cast<size_t>(out.size())), next(sum.size());
    load_elements(dtype, all[0].data(), 0, 1, out.size(), sum.data());
    PacedCancellation cancellation;
    for (size_t r = 1; r < all.size(); ++r) {
      load_elements(dtype, all[r].data(), 0, 1, out.size(), next.data());
      for (size_t i = 0; i < sum.size(); ++i) {
        cancellation.did(1);
        sum[i] = combined_numbers(op.reduction, sum[i], next[i]);
      }
    }
    if (op.reduction == CollectiveReduction::avg) {
      if constexpr (std::is_integral_v<T>) {  // sums wrap in their own type
        store_elements(dtype, out.mutable_data(), 0, 1, out.size(), sum.data());
        load_elements(dtype, out.data(), 0, 1, out.size(), sum.data());
      }
      for (T& x : sum) x /= static_cast<T>(op.ranks);
    }
    store_elements(dtype, out.mutable_data(), 0, 1, out.size(), sum.data());
  });
  return out;
}

// The `index`-th of `count` equal parts along an axis, put behind what is in `to` along it from element `at` on.
void copy_axis_part(const Tensor& from, Tensor& to, size_t axis, int64_t count, int64_t index, int64_t at) {
  const size_t width = static_cast<size_t>(bit_width(from.dtype()) / 8);
  size_t inner = width, outer = 1;
  for (size_t a = axis + 1; a < from.dims().size(); ++a) inner *= static_cast<size_t>(from.dims()[a]);
  for (size_t a = 0; a < axis; ++a) outer *= static_cast<size_t>(from.dims()[a]);
  const size_t part = static_cast<size_t>(from.dims()[axis] / count) * inner;
  const size_t source_row = static_cast<size_t>(from.dims()[axis]) * inner;
  const size_t target_row = static_cast<size_t>(to.dims()[axis]) * inner;
  PacedCancellation cancellation;
  for (size_t o = 0; o < outer && part > 0; ++o) {
    cancellation.did(static_cast<int64_t>(part));
    std::memcpy(to.mutable_data() + o * target_row + static_cast<size_t>(at) * inner,
                from.data() + o * source_row + static_cast<size_t>(index) * part, part);
  }
}

}  // namespace

std::vector<Tensor> Collective::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const auto along = static_cast<size_t>(axis);
  if (has_axis() && kind != CollectiveKind::all_gather && x.dims()[along] % ranks != 0)
    fail_rule("axis {} of size {} has no {} equal parts, one for each rank", axis, x.dims()[along], ranks);
  const std::vector<Tensor> all = gathered_operands(*this, x);
  const int64_t own = own_rank(*this);
  Dims dims = x.dims();
  switch (kind) {
    case CollectiveKind::broadcast:
      return {all[static_cast<size_t>(root)]};
    case CollectiveKind::all_reduce:
      return {reduced_operands(*this, all)};
    case CollectiveKind::all_gather: {
      dims[along] *= ranks;
      Tensor out(x.dtype(), dims);
      for (int64_t r = 0; r < ranks; ++r)
        copy_axis_part(all[static_cast<size_t>(r)], out, along, 1, 0, r * x.dims()[along]);
      return {out};
    }
    case CollectiveKind::reduce_scatter: {
      dims[along] /= ranks;
      Tensor out(x.dtype(), dims);
      copy_axis_part(reduced_operands(*this, all), out, along, ranks, own, 0);
      return {out};
    }
    case CollectiveKind::all_to_all: {
      Tensor out(x.dtype(), dims);
      for (int64_t r = 0; r < ranks; ++r)
        copy_axis_part(all[static_cast<size_t>(r)], out, along, ranks, own, r * (dims[along] / ranks));
      return {out};
    }
  }
  throw Error(ErrorCode::internal, "a collective of no kind");
}

}  // namespace camshaft::ops
