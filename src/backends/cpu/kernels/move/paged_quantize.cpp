#include "backends/cpu/kernels/move/paged_quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/targets.h"
#include "base/error.h"
#include "base/float_types.h"
#include "base/pieces.h"
#include "ir/ops/paged.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/move/paged_quantize.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/attention/attention_few-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

HWY_INLINE float as_float(float x) {
  return x;
}
template <class T>
HWY_INLINE float as_float(T x) {
  return to_float(x);
}

// The largest magnitude, `least` at least; NaN where there is one.
template <class T>
HWY_INLINE float largest_of(const T* x, int64_t n, float least) {
  const PanelTag d;
  const int64_t whole = n / panel_lanes() * panel_lanes();
  PanelVec most = hn::Set(d, least);
  auto are_numbers = hn::Eq(most, most);
  for (int64_t i = 0; i < whole; i += panel_lanes()) {
    const PanelVec v = load_widened(x + i);
    most = hn::Max(most, hn::Abs(v));
    are_numbers = hn::And(are_numbers, hn::Eq(v, v));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, most));
  bool is_number = hn::AllTrue(d, are_numbers);
  for (int64_t i = whole; i < n; ++i) {
    const float magnitude = std::fabs(as_float(x[i]));
    is_number = is_number && magnitude == magnitude;
    largest = std::max(largest, magnitude);
  }
  return is_number ? largest : std::numeric_limits<float>::quiet_NaN();
}

template <class T>
HWY_INLINE void write_bytes(const T* x, int64_t n, float scale, int8_t* to) {
  const PanelTag d;
  const hn::RebindToSigned<PanelTag> wide;
  const hn::Rebind<int8_t, PanelTag> narrow;
  const PanelVec divisor = hn::Set(d, scale);
  const int64_t whole = n / panel_lanes() * panel_lanes();
  for (int64_t i = 0; i < whole; i += panel_lanes()) {
    const PanelVec quotient = hn::Div(load_widened(x + i), divisor);
    const PanelVec step = hn::Round(hn::IfThenElseZero(hn::Eq(quotient, quotient), quotient));
    hn::StoreU(hn::DemoteTo(narrow, hn::ConvertTo(wide, step)), narrow, to + i);
  }
  for (int64_t i = whole; i < n; ++i) {
    const float quotient = as_float(x[i]) / scale;
    to[i] = std::isnan(quotient) ? int8_t{0} : static_cast<int8_t>(std::nearbyint(quotient));
  }
}

// One head's row.
template <class T>
void quantize_head(const T* x, int64_t n, DType type, std::byte* codes, float* scale) {
  *scale = largest_of(x, n, ops::PagedQuantize::least) / ops::PagedQuantize::highest(type);
  if (type == DType::i8) return write_bytes(x, n, *scale, reinterpret_cast<int8_t*>(codes));
  for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<std::byte>(float_to_f8e4m3(as_float(x[i]) / *scale));
}

void quantize_row(const PagedQuantize& p, const std::byte* row, std::byte* codes, float* scales) {
  for (int64_t h = 0; h < p.heads; ++h) {
    const int64_t at = h * p.size;
    if (p.row_type == DType::f32)
      quantize_head(reinterpret_cast<const float*>(row) + at, p.size, p.cache_type, codes + at, scales + h);
    else if (p.row_type == DType::f16)
      quantize_head(reinterpret_cast<const Half*>(row) + at, p.size, p.cache_type, codes + at, scales + h);
    else
      quantize_head(reinterpret_cast<const BFloat*>(row) + at, p.size, p.cache_type, codes + at, scales + h);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(quantize_row);

namespace {

template <class Slot>
void store(const PagedQuantize& p, const std::byte* rows, const Slot* slots, const PagedQuantize::Results& results) {
  for (int64_t i = 0; i < p.count; ++i)
    if (slots[i] >= p.places)
      throw Error(ErrorCode::invalid_argument, fmt::format("row {} goes to slot {} of {}", i, slots[i], p.places));
  const int64_t row = p.heads * p.size, row_bytes = row * bit_width(p.row_type) / 8;
  // A step has few rows, of a few KB: not worth waking threads.
  for (int64_t i = 0; i < p.count; ++i)
    if (slots[i] >= 0) HWY_DYNAMIC_DISPATCH(quantize_row)
  (p, rows + i * row_bytes, results.codes + slots[i] * row, results.scales + slots[i] * p.heads);
}

void copy(ThreadPool& pool, const void* from, void* to, int64_t bytes) {
  if (from == to) return;
  constexpr int64_t grain = 64 * 1024;
  for_pieces(pool, bytes, grain, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace

void PagedQuantize::run(ThreadPool& pool, const Caches& caches, const std::byte* rows, const void* slots,
                        DType slot_type, const Results& results) const {
  copy(pool, caches.codes, results.codes, places * heads * size);
  copy(pool, caches.scales, results.scales, places * heads * static_cast<int64_t>(sizeof(float)));
  if (slot_type == DType::i32) return store(*this, rows, static_cast<const int32_t*>(slots), results);
  store(*this, rows, static_cast<const int64_t*>(slots), results);
}

}  // namespace camshaft::cpu
#endif
