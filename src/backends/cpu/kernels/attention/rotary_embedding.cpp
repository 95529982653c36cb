#include "backends/cpu/kernels/attention/rotary_embedding.h"

#include <algorithm>
#include <array>

#include "backends/cpu/kernels/targets.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/attention/rotary_embedding.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

struct Row {
  const float *x, *cosine, *sine;
  float* y;
};

// Any tables, from pair `i` on.
void turn_any(const Rotary& r, const Row& row, int64_t i) {
  const int64_t half = r.rotated / 2, second = r.interleaved ? 1 : half, step = r.interleaved ? 2 : 1;
  for (; i < half; ++i) {
    const int64_t at = i * step;
    const float a = row.x[at], b = row.x[at + second];
    const float *c = row.cosine + i * r.cosine.pair, *s = row.sine + i * r.sine.pair;
    row.y[at] = a * c[0] - b * s[0];
    row.y[at + second] = b * c[r.cosine.second] + a * s[r.sine.second];
  }
}

// Angles of neighbouring pairs are neighbours.
HWY_INLINE void turn_halves(const Rotary& r, const Row& row) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t half = r.rotated / 2;
  const auto turn = [&](int64_t i, auto load, auto store) HWY_ATTR {
    const Vec a = load(row.x + i), b = load(row.x + half + i);
    const Vec second_cosine = load(row.cosine + r.cosine.second + i), second_sine = load(row.sine + r.sine.second + i);
    store(hn::NegMulAdd(b, load(row.sine + i), hn::Mul(a, load(row.cosine + i))), row.y + i);
    store(hn::MulAdd(a, second_sine, hn::Mul(b, second_cosine)), row.y + half + i);
  };
  int64_t i = 0;
  for (; i + lanes <= half; i += lanes)
    turn(
        i, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); },
        [&](Vec v, float* to) HWY_ATTR { hn::StoreU(v, d, to); });
  if (i == half) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(half - i));
  turn(
      i, [&](const float* from) HWY_ATTR { return masked_load(mask, d, from); },
      [&](Vec v, float* to) HWY_ATTR { masked_store(v, mask, d, to); });
}

#if HWY_TARGET != HWY_SCALAR
// Pairs are neighbours, in tables of one angle an element too.
HWY_INLINE void turn_neighbours(const Rotary& r, const Row& row) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto turned = [&](Vec v, Vec cosine, Vec sine) HWY_ATTR {
    const Vec other = hn::Mul(hn::Reverse2(d, v), sine), own = hn::Mul(v, cosine);
    return hn::OddEven(hn::Add(own, other), hn::Sub(own, other));
  };
  int64_t i = 0;
  for (; i + lanes <= r.rotated; i += lanes)
    hn::StoreU(turned(hn::LoadU(d, row.x + i), hn::LoadU(d, row.cosine + i), hn::LoadU(d, row.sine + i)), d, row.y + i);
  if (i == r.rotated) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(r.rotated - i));
  masked_store(
      turned(masked_load(mask, d, row.x + i), masked_load(mask, d, row.cosine + i), masked_load(mask, d, row.sine + i)),
      mask, d, row.y + i);
}

// Pairs are neighbours, tables have one angle for each. Of pairs [begin, half) whole vectors of D; where the rest
// begins.
template <class D>
HWY_INLINE int64_t turn_pairs(D d, const Rotary& r, const Row& row, int64_t begin) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t pairs = r.rotated / 2;
  int64_t i = begin;
  for (; i + lanes <= pairs; i += lanes) {
    hn::Vec<D> a, b;
    hn::LoadInterleaved2(d, row.x + 2 * i, a, b);
    const auto second_cosine = hn::LoadU(d, row.cosine + r.cosine.second + i),
               second_sine = hn::LoadU(d, row.sine + r.sine.second + i);
    const auto first = hn::NegMulAdd(b, hn::LoadU(d, row.sine + i), hn::Mul(a, hn::LoadU(d, row.cosine + i)));
    hn::StoreInterleaved2(first, hn::MulAdd(a, second_sine, hn::Mul(b, second_cosine)), d, row.y + 2 * i);
  }
  return i;
}

// What is no whole vector of AVX-512 is one of half its length, or of a quarter.
HWY_INLINE void turn_neighbours_by_pairs(const Rotary& r, const Row& row) {
  int64_t i = turn_pairs(Tag(), r, row, 0);
  if constexpr (HWY_LANES(float) > 8) i = turn_pairs(hn::CappedTag<float, 8>(), r, row, i);
  if constexpr (HWY_LANES(float) > 4) i = turn_pairs(hn::CappedTag<float, 4>(), r, row, i);
  turn_any(r, row, i);
}
#endif

void turn_row(const Rotary& r, const Row& row) {
  constexpr int64_t line = 16, ahead = 1024;  // 4 heads of 3906 rows take 328 us without, and 305
  for (int64_t i = 0; i < r.width; i += line) {
    __builtin_prefetch(row.y + i + ahead, 1);
    __builtin_prefetch(row.x + i + ahead);
  }
  const bool by_pairs = r.cosine.pair == 1 && r.sine.pair == 1;
  if (!r.interleaved && by_pairs) {
    turn_halves(r, row);
#if HWY_TARGET != HWY_SCALAR
  } else if (r.interleaved && r.cosine.pair == 2 && r.sine.pair == 2) {
    turn_neighbours(r, row);
  } else if (r.interleaved && by_pairs) {
    turn_neighbours_by_pairs(r, row);
#endif
  } else {
    turn_any(r, row, 0);
  }
  std::copy(row.x + r.rotated, row.x + r.width, row.y + r.rotated);
}

HWY_INLINE const float* table_row(const RotaryTable& table, const RotaryRows& rows, int64_t at) {
  if (!rows.ids) return rows.first + at;
  const int64_t id = rows.ids[at];
  return rows.first + (id < 0 ? id + table.rows : id) * table.row;
}

void turn_rows(const Rotary& r, const Rotary::Part& part, const float* x, const RotaryRows& cosines,
               const RotaryRows& sines, float* y, int64_t begin, int64_t end) {
  const StridedSpace& space = part.rows;
  const auto axes = static_cast<size_t>(space.rank());
  std::array<int64_t, most_strided_dims> index{};
  std::array<int64_t, Rotary::operand_count> at = part.start;
  int64_t rest = begin;
  for (size_t d = axes; d-- > 0; rest /= space.dims[d]) {
    index[d] = rest % space.dims[d];
    for (size_t o = 0; o < at.size(); ++o) at[o] += index[d] * space.strides[o][d];
  }
  for (int64_t row = begin; row < end; ++row) {
    turn_row(r, {x + at[Rotary::in_x], table_row(r.cosine, cosines, at[Rotary::in_cosine]),
                 table_row(r.sine, sines, at[Rotary::in_sine]), y + at[Rotary::out_y]});
    for (size_t d = axes; d-- > 0;) {
      const bool carries = ++index[d] == space.dims[d];
      for (size_t o = 0; o < at.size(); ++o)
        at[o] += carries ? -(space.dims[d] - 1) * space.strides[o][d] : space.strides[o][d];
      if (!carries) break;
      index[d] = 0;
    }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(turn_rows);

namespace {

// The rows of the last axis, which the one before it repeats for the same rows of the tables (heads), so many at a
// time: 4 heads of 3906 rows read tables of 1 MB for each head from beyond L2.
constexpr int64_t least_table_bytes = 128 * 1024;

// Rows of the last axis from `first` on, in blocks of `block` before the axis that repeats them.
Rotary::Part part_of(const StridedSpace& rows, int64_t first, int64_t count, int64_t block) {
  Rotary::Part part{rows, {}};
  const auto last = rows.dims.size() - 1;
  part.rows.dims[last] = block;
  part.rows.dims.insert(part.rows.dims.end() - 2, count / block);
  for (size_t o = 0; o < part.start.size(); ++o) {
    const int64_t stride = rows.strides[o][last];
    part.start[o] = first * stride;
    part.rows.strides[o].insert(part.rows.strides[o].end() - 2, block * stride);
  }
  part.rows.coalesce();
  return part;
}

}  // namespace

void Rotary::prepare() {
  rows.coalesce();
  parts = {{rows, {}}};
  const size_t axes = rows.dims.size();
  if (axes < 2 || axes >= static_cast<size_t>(most_strided_dims) || rotated == 0) return;
  for (const Operand table : {in_cosine, in_sine})
    if (rows.strides[table][axes - 1] == 0 || rows.strides[table][axes - 2] != 0) return;
  const int64_t length = rows.dims.back(), row_bytes = 2 * rotated * static_cast<int64_t>(sizeof(float));
  const int64_t block = std::max<int64_t>(1, least_table_bytes / row_bytes), whole = length / block * block;
  if (whole == 0) return;
  parts = {part_of(rows, 0, whole, block)};
  if (whole < length) parts.push_back(part_of(rows, whole, length - whole, length - whole));
}

void Rotary::run(ThreadPool& pool, const float* x, RotaryRows cosines, RotaryRows sines, float* y) const {
  if (width == 0) return;
  if (rotated == 0) cosines.ids = sines.ids = nullptr;  // there may be none, as of tables of no columns
  constexpr int64_t least_elements = 4096;
  for (const Part& part : parts)
    for_pieces(pool, part.rows.count(), 1 + least_elements / width, [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(turn_rows)(*this, part, x, cosines, sines, y, begin, end);
    });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
