#include "backends/cpu/kernels/reduce/few_top_k.h"

#include <algorithm>

#include "backends/cpu/kernels/element_types.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/few_top_k.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/for_each_of-inl.h"
#include "backends/cpu/kernels/reduce/top_k_keys-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

// The kBest best of as many columns as D has lanes, or all rows in order where there are fewer; k of them are written.
template <int kBest, class D, class T = hn::TFromD<D>>
HWY_INLINE void best_of_vector(D d, const T* x, const TopKColumns& of, int64_t* best) {
  const hn::RebindToSigned<D> di;
  using Key = hn::TFromD<decltype(di)>;
  using Keys = hn::Vec<decltype(di)>;
  Keys keys[kBest], rows[kBest];
#pragma GCC unroll 16
  for (int i = 0; i < kBest; ++i) keys[i] = rows[i] = hn::Zero(di);
  // The row goes in front of those that it is better than, and these move on by one: of equals the earlier one stays in
  // front. Places from `taken` on have no row yet, and anything is better than that.
  const auto take = [&](int64_t row, int64_t taken) CAMSHAFT_INLINE_LAMBDA {
    const Keys key = keys_of(d, hn::LoadU(d, x + row * of.step), of.largest), at = hn::Set(di, static_cast<Key>(row));
    const auto better = [&](int i) HWY_ATTR {
      const auto wins = hn::Gt(key, keys[i]);
      return i < taken ? wins : hn::Eq(key, key);
    };
#pragma GCC unroll 16
    for (int i = kBest - 1; i > 0; --i) {
      const auto wins = better(i), wins_before = better(i - 1);
      keys[i] = hn::IfThenElse(wins_before, keys[i - 1], hn::IfThenElse(wins, key, keys[i]));
      rows[i] = hn::IfThenElse(wins_before, rows[i - 1], hn::IfThenElse(wins, at, rows[i]));
    }
    const auto wins = better(0);
    keys[0] = hn::IfThenElse(wins, key, keys[0]);
    rows[0] = hn::IfThenElse(wins, at, rows[0]);
  };
  const int64_t firsts = std::min<int64_t>(kBest, of.rows);
  for (int64_t row = 0; row < firsts; ++row) take(row, row);
  for (int64_t row = kBest; row < of.rows; ++row) take(row, kBest);
  HWY_ALIGN Key found[hn::MaxLanes(di)];
#pragma GCC unroll 16
  for (int i = 0; i < kBest; ++i) {
    if (i >= of.k) break;
    hn::Store(rows[i], di, found);
    for (size_t lane = 0; lane < hn::Lanes(di); ++lane) best[i * of.columns + static_cast<int64_t>(lane)] = found[lane];
  }
}

// As many columns at once as kLanes or as a vector has, and what is left by fewer.
template <int kBest, size_t kLanes, class T>
void best_of_columns(const T* x, const TopKColumns& of, int64_t first, int64_t* best) {
  const hn::CappedTag<T, kLanes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = first;
  for (; c + lanes <= of.columns; c += lanes) best_of_vector<kBest>(d, x + c, of, best + c);
  if (c == of.columns) return;
  if constexpr (kLanes > 4)
    best_of_columns<kBest, kLanes / 2>(x, of, c, best);
  else if constexpr (kLanes > 1)
    best_of_columns<kBest, 1>(x, of, c, best);
}

template <class T>
void best_of(const T* x, const TopKColumns& of, int64_t* best) {
  if (of.k == 1) return best_of_columns<1, HWY_LANES(T)>(x, of, 0, best);
  if (of.k == 2) return best_of_columns<2, HWY_LANES(T)>(x, of, 0, best);
  if (of.k <= 4) return best_of_columns<4, HWY_LANES(T)>(x, of, 0, best);
  if (of.k <= 8) return best_of_columns<8, HWY_LANES(T)>(x, of, 0, best);
  best_of_columns<16, HWY_LANES(T)>(x, of, 0, best);
}

#define CAMSHAFT_FEW(name, T)                                         \
  void few_##name(const T* x, const TopKColumns& of, int64_t* best) { \
    best_of(x, of, best);                                             \
  }
CAMSHAFT_WIDE_TYPES(CAMSHAFT_FEW)
#undef CAMSHAFT_FEW

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

#define CAMSHAFT_FEW(name, T)                                        \
  HWY_EXPORT(few_##name);                                            \
  template <>                                                        \
  void few_top_k(const T* x, const TopKColumns& of, int64_t* best) { \
    HWY_DYNAMIC_DISPATCH(few_##name)(x, of, best);                   \
  }
CAMSHAFT_WIDE_TYPES(CAMSHAFT_FEW)
#undef CAMSHAFT_FEW

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
