#include "backends/cpu/kernels/reduce/top_k_columns.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/top_k_columns.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/reduce/top_k_keys-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

// Puts an element of a column in its place among the best of the rows before it.
template <class T, class Key>
void insert(Key key, int64_t row, int64_t k, typename CandidatesOf<T>::EntryType* best, Key& least) {
  using Best = CandidatesOf<T>;
  const auto added = Best::entry(key, row);
  int64_t at = std::min(row, k - 1);
  for (; at > 0 && best[at - 1] < added; --at) best[at] = best[at - 1];
  best[at] = added;
  least = static_cast<Key>(Best::key_of(best[k - 1]));
}

// Rows [begin, end). Where kFirst they are the first k, all of which are kept.
template <bool kFirst, class T>
void rows(const T* x, const TopKColumns& of, int64_t begin, int64_t end, typename CandidatesOf<T>::EntryType* best,
          T* room) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using Key = hn::TFromD<decltype(di)>;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* least = reinterpret_cast<Key*>(room);
  HWY_ALIGN Key keys[hn::MaxLanes(d)];
  for (int64_t row = begin; row < end; ++row) {
    const T* from = x + row * of.step;
    int64_t c = 0;
    for (; c + lanes <= of.columns; c += lanes) {
      const auto key = keys_of(d, hn::LoadU(d, from + c), of.largest);
      uint64_t better = ~uint64_t{0} >> (64 - lanes);
      if constexpr (!kFirst) {
        // Elements to come have higher indices: those equal to the k-th best lose against it.
        better = lanes_above(di, key, hn::LoadU(di, least + c));
        if (better == 0) continue;
      }
      hn::Store(key, di, keys);
      for (; better != 0; better &= better - 1) {
        const int lane = std::countr_zero(better);
        insert<T>(keys[lane], row, of.k, best + (c + lane) * of.k, least[c + lane]);
      }
    }
    for (; c < of.columns; ++c) {
      const Key key = hn::GetLane(keys_of(one, hn::Set(one, from[c]), of.largest));
      if (kFirst || key > least[c]) insert<T>(key, row, of.k, best + c * of.k, least[c]);
    }
  }
}

#define CAMSHAFT_ROWS(name, T)                                                                                       \
  void first_##name(const T* x, const TopKColumns& of, int64_t begin, int64_t end, CandidatesOf<T>::EntryType* best, \
                    T* least) {                                                                                      \
    rows<true>(x, of, begin, end, best, least);                                                                      \
  }                                                                                                                  \
  void other_##name(const T* x, const TopKColumns& of, int64_t begin, int64_t end, CandidatesOf<T>::EntryType* best, \
                    T* least) {                                                                                      \
    rows<false>(x, of, begin, end, best, least);                                                                     \
  }
CAMSHAFT_ELEMENT_TYPES(CAMSHAFT_ROWS)
#undef CAMSHAFT_ROWS

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

namespace {

constexpr int64_t elements_a_part = 1 << 18;  // between two questions whether to stop

#define CAMSHAFT_ROWS(name, T)                                                         \
  HWY_EXPORT(first_##name);                                                            \
  HWY_EXPORT(other_##name);                                                            \
  void part(bool first, const T* x, const TopKColumns& of, int64_t begin, int64_t end, \
            CandidatesOf<T>::EntryType* best, T* least) {                              \
    if (first) {                                                                       \
      HWY_DYNAMIC_DISPATCH(first_##name)(x, of, begin, end, best, least);              \
    } else {                                                                           \
      HWY_DYNAMIC_DISPATCH(other_##name)(x, of, begin, end, best, least);              \
    }                                                                                  \
  }
CAMSHAFT_ELEMENT_TYPES(CAMSHAFT_ROWS)
#undef CAMSHAFT_ROWS

}  // namespace

template <class T>
void top_k_of_columns(const T* x, const TopKColumns& of, typename CandidatesOf<T>::EntryType* best, T* least,
                      PacedCancellation& cancellation) {
  part(true, x, of, 0, of.k, best, least);
  const int64_t rows = std::max<int64_t>(1, elements_a_part / of.columns);
  for (int64_t begin = of.k; begin < of.rows; begin += rows) {
    const int64_t end = std::min(of.rows, begin + rows);
    cancellation.did((end - begin) * of.columns);
    part(false, x, of, begin, end, best, least);
  }
}

#define CAMSHAFT_COLUMNS(name, T) \
  template void top_k_of_columns(const T*, const TopKColumns&, CandidatesOf<T>::EntryType*, T*, PacedCancellation&);
CAMSHAFT_ELEMENT_TYPES(CAMSHAFT_COLUMNS)
#undef CAMSHAFT_COLUMNS

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
