#include "backends/cpu/kernels/move/gather_words.h"

#include <limits>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/move/gather_words.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::ScalableTag<int32_t>;

// A vector of indices as 32 bits; false where they need more.
HWY_INLINE bool load_indices(const int32_t* indices, hn::Vec<Words>& v) {
  v = hn::LoadU(Words(), indices);
  return true;
}
HWY_INLINE bool load_indices(const int64_t* indices, hn::Vec<Words>& v) {
  const Words d;
  hn::Vec<Words> high;
  hn::LoadInterleaved2(d, reinterpret_cast<const int32_t*>(indices), v, high);  // little endian
  return hn::AllTrue(d, hn::Eq(high, hn::BroadcastSignBit(v)));
}

// Neighbours in memory, in either order, are one load: relative positions, which fall by one from key to key, are so
// but for those that are clamped.
template <class D, class V>
HWY_INLINE hn::Vec<D> words_at(D du, const uint32_t* from, V v) {
  const Words d;
  const auto first = hn::Set(d, hn::GetLane(v)), count = hn::Iota(d, 0);
  if (hn::AllTrue(d, hn::Eq(hn::Sub(first, v), count)))
    return hn::Reverse(du, hn::LoadU(du, from + hn::GetLane(v) - static_cast<int32_t>(hn::Lanes(d)) + 1));
  if (hn::AllTrue(d, hn::Eq(hn::Sub(v, first), count))) return hn::LoadU(du, from + hn::GetLane(v));
  return hn::GatherIndex(du, from, v);
}

// With vectors of 16 only: 0.3 ns an element instead of 0.5. Eight took as long as one by one, as do 16 of columns, but
// where all are of one row: 10^5 elements over the middle axis of 40 x 40 took 103 us by vectors, one by one 68.
template <class Index>
int64_t gather(const uint32_t* from, const Index* indices, int64_t count, int64_t size, int64_t step, bool stays,
               uint32_t* out) {
  const Words d;
  const hn::RebindToUnsigned<Words> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (lanes < 16 || size > most || step > most || (size - 1) * step + count > most) return 0;
  const auto length = hn::Set(d, static_cast<int32_t>(size)), each = hn::Set(d, static_cast<int32_t>(step));
  int64_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    // What the first and the last index tell is asked before the others: any order took 1.3 times as long otherwise.
    const int64_t distance = static_cast<int64_t>(indices[k + lanes - 1]) - static_cast<int64_t>(indices[k]);
    if (stays && distance != 0) break;
    hn::Vec<Words> v;
    if (!load_indices(indices + k, v)) break;
    v = hn::Add(v, hn::And(hn::BroadcastSignBit(v), length));
    if (!hn::AllTrue(du, hn::Lt(hn::BitCast(du, v), hn::BitCast(du, length)))) break;
    if (step != 1) v = hn::Mul(v, each);
    if (stays) v = hn::Add(v, hn::Iota(d, static_cast<int32_t>(k)));
    const bool maybe = stays || (step == 1 && (distance == lanes - 1 || distance == 1 - lanes));
    hn::StoreU(maybe ? words_at(du, from, v) : hn::GatherIndex(du, from, v), du, out + k);
  }
  return k;
}

// Elements of 8 or 16 bits of one row by the aligned words that they lie in, of which the row has a part: 10^5 of 16
// bits took 48 us one by one.
template <class T, class Index>
int64_t gather_parts(const T* from, const Index* indices, int64_t count, int64_t size, T* out) {
  const Words d;
  const hn::RebindToUnsigned<Words> du;
  const hn::Rebind<T, Words> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t most = std::numeric_limits<int32_t>::max() - 4;
  constexpr int parts = 4 / sizeof(T), shift = parts == 4 ? 2 : 1;
  const auto address = reinterpret_cast<uintptr_t>(from);
  if (lanes < 16 || size > most || address % sizeof(T) != 0) return 0;
  const auto* words = reinterpret_cast<const uint32_t*>(address & ~uintptr_t{3});
  const auto before = hn::Set(d, static_cast<int32_t>((address & 3) / sizeof(T)));
  const auto length = hn::Set(d, static_cast<int32_t>(size));
  int64_t k = 0;
  for (; k + lanes <= count; k += lanes) {
    hn::Vec<Words> v;
    if (!load_indices(indices + k, v)) break;
    v = hn::Add(v, hn::And(hn::BroadcastSignBit(v), length));
    if (!hn::AllTrue(du, hn::Lt(hn::BitCast(du, v), hn::BitCast(du, length)))) break;
    v = hn::Add(v, before);
    const auto word = hn::GatherIndex(du, words, hn::ShiftRight<shift>(v));
    const auto part = hn::BitCast(du, hn::And(v, hn::Set(d, parts - 1)));
    hn::StoreU(hn::TruncateTo(narrow, hn::Shr(word, hn::ShiftLeft<5 - shift>(part))), narrow, out + k);
  }
  return k;
}

int64_t gather_bytes_wide(const uint8_t* from, const int64_t* indices, int64_t count, int64_t size, uint8_t* out) {
  return gather_parts(from, indices, count, size, out);
}
int64_t gather_bytes_narrow(const uint8_t* from, const int32_t* indices, int64_t count, int64_t size, uint8_t* out) {
  return gather_parts(from, indices, count, size, out);
}
int64_t gather_halves_wide(const uint16_t* from, const int64_t* indices, int64_t count, int64_t size, uint16_t* out) {
  return gather_parts(from, indices, count, size, out);
}
int64_t gather_halves_narrow(const uint16_t* from, const int32_t* indices, int64_t count, int64_t size, uint16_t* out) {
  return gather_parts(from, indices, count, size, out);
}

void reverse(const uint32_t* from, int64_t count, uint32_t* out) {
  const hn::ScalableTag<uint32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t k = 0;
  for (; k + lanes <= count; k += lanes) hn::StoreU(hn::Reverse(d, hn::LoadU(d, from - k - (lanes - 1))), d, out + k);
  for (; k < count; ++k) out[k] = from[-k];
}

int64_t gather_wide(const uint32_t* from, const int64_t* indices, int64_t count, int64_t size, int64_t step, bool stays,
                    uint32_t* out) {
  return gather(from, indices, count, size, step, stays, out);
}
int64_t gather_narrow(const uint32_t* from, const int32_t* indices, int64_t count, int64_t size, int64_t step,
                      bool stays, uint32_t* out) {
  return gather(from, indices, count, size, step, stays, out);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(gather_wide);
HWY_EXPORT(gather_narrow);
HWY_EXPORT(gather_bytes_wide);
HWY_EXPORT(gather_bytes_narrow);
HWY_EXPORT(gather_halves_wide);
HWY_EXPORT(gather_halves_narrow);
HWY_EXPORT(reverse);

int64_t gather_words(const uint32_t* from, const int64_t* indices, int64_t count, int64_t size, int64_t step,
                     bool stays, uint32_t* out) {
  return HWY_DYNAMIC_DISPATCH(gather_wide)(from, indices, count, size, step, stays, out);
}
int64_t gather_words(const uint32_t* from, const int32_t* indices, int64_t count, int64_t size, int64_t step,
                     bool stays, uint32_t* out) {
  return HWY_DYNAMIC_DISPATCH(gather_narrow)(from, indices, count, size, step, stays, out);
}
int64_t gather_words(const uint8_t* from, const int64_t* indices, int64_t count, int64_t size, uint8_t* out) {
  return HWY_DYNAMIC_DISPATCH(gather_bytes_wide)(from, indices, count, size, out);
}
int64_t gather_words(const uint8_t* from, const int32_t* indices, int64_t count, int64_t size, uint8_t* out) {
  return HWY_DYNAMIC_DISPATCH(gather_bytes_narrow)(from, indices, count, size, out);
}
int64_t gather_words(const uint16_t* from, const int64_t* indices, int64_t count, int64_t size, uint16_t* out) {
  return HWY_DYNAMIC_DISPATCH(gather_halves_wide)(from, indices, count, size, out);
}
int64_t gather_words(const uint16_t* from, const int32_t* indices, int64_t count, int64_t size, uint16_t* out) {
  return HWY_DYNAMIC_DISPATCH(gather_halves_narrow)(from, indices, count, size, out);
}
void reverse_words(const uint32_t* from, int64_t count, uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(reverse)(from, count, out);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
