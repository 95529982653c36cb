#include "backends/cpu/kernels/collective/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/communicator.h"
#include "base/error.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

namespace {

using ops::CollectiveKind;
using ops::CollectiveReduction;

// Integers wrap; NaN stays.
template <class T>
T combine(CollectiveReduction reduction, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if (reduction == CollectiveReduction::sum || reduction == CollectiveReduction::avg)
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    if (reduction == CollectiveReduction::prod) return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else {
    if (reduction == CollectiveReduction::sum || reduction == CollectiveReduction::avg) return a + b;
    if (reduction == CollectiveReduction::prod) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
  }
  return reduction == CollectiveReduction::min ? std::min(a, b) : std::max(a, b);
}

// Rank by rank into the result. Parts begin at whole elements.
template <class T>
void reduce_part(const ops::Collective& op, int rank, const std::byte* part, std::byte* y, int64_t count) {
  const auto* from = reinterpret_cast<const T*>(part);
  auto* to = reinterpret_cast<T*>(y);
  const bool is_last = rank + 1 == op.ranks, divides = is_last && op.reduction == CollectiveReduction::avg;
  for (int64_t i = 0; i < count; ++i) {
    const T sum = rank == 0 ? from[i] : combine(op.reduction, to[i], from[i]);
    to[i] = divides ? static_cast<T>(sum / static_cast<T>(op.ranks)) : sum;
  }
}

void reduce_part(const ops::Collective& op, DType dtype, int rank, const std::byte* part, std::byte* y, size_t bytes) {
  switch (dtype) {
    case DType::f32:
      return reduce_part<float>(op, rank, part, y, static_cast<int64_t>(bytes / sizeof(float)));
    case DType::f64:
      return reduce_part<double>(op, rank, part, y, static_cast<int64_t>(bytes / sizeof(double)));
    case DType::i32:
      return reduce_part<int32_t>(op, rank, part, y, static_cast<int64_t>(bytes / sizeof(int32_t)));
    case DType::i64:
      return reduce_part<int64_t>(op, rank, part, y, static_cast<int64_t>(bytes / sizeof(int64_t)));
    default:
      throw Error(ErrorCode::internal, "a reduction of another type");
  }
}

}  // namespace

bool reduces_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
}

void CollectiveRun::run(const std::byte* x, std::byte* y) const {
  const size_t bytes = byte_size(dtype, outer * inner);
  Communicator* const communicator = CommunicatorScope::current();
  if (!communicator) {
    constexpr size_t part = size_t{1} << 20;
    for (int64_t r = 0; r < op.ranks; ++r)
      for (size_t at = 0; at < bytes; at += part)
        take(0, static_cast<int>(r), at, x + at, std::min(part, bytes - at), y);
    return;
  }
  if (communicator->size() != op.ranks)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the communicator is of {} ranks, the model of {}", communicator->size(), op.ranks));
  const int own = communicator->rank();
  const bool brings = op.kind != CollectiveKind::broadcast || own == op.root;
  communicator->exchange(call, brings ? std::span(x, bytes) : std::span<const std::byte>(), bytes,
                         [&](int rank, size_t offset, std::span<const std::byte> part) {
                           take(own, rank, offset, part.data(), part.size(), y);
                         });
}

// What `rank` has brought from byte `offset` on, into its place in the result.
void CollectiveRun::take(int own, int rank, size_t offset, const std::byte* part, size_t bytes, std::byte* y) const {
  if (bytes == 0) return;
  cancellation_point();
  if (op.kind == CollectiveKind::broadcast) {
    if (rank == op.root) std::memcpy(y + offset, part, bytes);
    return;
  }
  if (op.kind == CollectiveKind::all_reduce) return reduce_part(op, dtype, rank, part, y + offset, bytes);
  const size_t row = byte_size(dtype, inner), ranks = static_cast<size_t>(op.ranks), r = static_cast<size_t>(rank);
  const size_t share = row / ranks;
  for (size_t at = offset, end = offset + bytes; at < end;) {
    const size_t o = at / row, column = at % row, count = std::min(row - column, end - at);
    const std::byte* const from = part + (at - offset);
    at += count;
    if (op.kind == CollectiveKind::all_gather) {
      std::memcpy(y + (o * ranks + r) * row + column, from, count);
      continue;
    }
    // Of the row only the own share counts.
    const size_t first = std::max(column, share * static_cast<size_t>(own));
    const size_t last = std::min(column + count, share * static_cast<size_t>(own + 1));
    if (first >= last) continue;
    const std::byte* const wanted = from + (first - column);
    const size_t within = first - share * static_cast<size_t>(own);
    if (op.kind == CollectiveKind::reduce_scatter)
      reduce_part(op, dtype, rank, wanted, y + o * share + within, last - first);
    else
      std::memcpy(y + o * row + r * share + within, wanted, last - first);
  }
}

}  // namespace camshaft::cpu
