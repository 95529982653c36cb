#include "backends/cpu/kernels/window/nearest_resize.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

#include "backends/cpu/kernels/move/element_bytes.h"
#include "backends/cpu/kernels/move/strided.h"
#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/error.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/nearest_resize.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// out[i] = in[table[i]] of a table that never falls: where a line grows, a vector of the result comes from one of the
// input by a permutation, and where it does not shrink to less than a half, from two. By gathers 64 images of 493 x 296
// of 395 x 395 took 1.2 ms.
void rising_words(const uint32_t* in, int64_t length, const int32_t* table, int64_t count, uint32_t* out) {
  const hn::ScalableTag<uint32_t> d;
  const hn::ScalableTag<int32_t> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const int64_t first = table[i], span = table[i + lanes - 1] - first;
    const auto from = hn::Sub(hn::LoadU(di, table + i), hn::Set(di, static_cast<int32_t>(first)));
    if (span < lanes && first + lanes <= length) {
      hn::StoreU(hn::TableLookupLanes(hn::LoadU(d, in + first), hn::IndicesFromVec(d, from)), d, out + i);
    } else if (span < 2 * lanes && first + 2 * lanes <= length) {
      const auto place = hn::IndicesFromVec(d, hn::And(from, hn::Set(di, static_cast<int32_t>(lanes - 1))));
      const auto is_first = hn::RebindMask(d, hn::Lt(from, hn::Set(di, static_cast<int32_t>(lanes))));
      const auto low = hn::TableLookupLanes(hn::LoadU(d, in + first), place);
      hn::StoreU(hn::IfThenElse(is_first, low, hn::TableLookupLanes(hn::LoadU(d, in + first + lanes), place)), d,
                 out + i);
    } else {
      hn::StoreU(hn::GatherIndex(d, in, hn::LoadU(di, table + i)), d, out + i);
    }
  }
  for (; i < count; ++i) out[i] = in[table[i]];
}

#if HWY_TARGET != HWY_SCALAR
// Each of elements [i, count) twice; returns how many were.
template <class D, class T>
HWY_INLINE int64_t repeat_vectors(D d, const T* in, int64_t i, int64_t count, T* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  while (i < count && count >= lanes) {
    i = std::min(i, count - lanes);  // the last one begins before what is left
    const auto v = hn::LoadU(d, in + i);
    hn::StoreInterleaved2(v, v, d, out + 2 * i);
    i += lanes;
  }
  return i;
}
#endif

template <class T>
void repeat_twice(const T* in, int64_t count, T* out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  i = repeat_vectors(hn::ScalableTag<T>(), in, i, count, out);
  i = repeat_vectors(hn::CappedTag<T, 16 / sizeof(T)>(), in, i, count, out);
#endif
  for (; i < count; ++i) out[2 * i] = out[2 * i + 1] = in[i];
}

#if HWY_TARGET != HWY_SCALAR
// The same of `rows` rows, each of them twice. Rows shorter than a vector are read once for both: of 20 elements a copy
// of each took 1.3 times as long. Longer ones are written one after the other, and what comes behind is asked for: 40
// MB of rows of 197 took 2.6 ms written side by side, in the order of memory 1.9.
template <class T>
void repeat_rows_twice(const T* in, int64_t rows, int64_t count, T* out) {
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 16 / sizeof(T)> narrow;
  const auto lanes_of = [](auto d) HWY_ATTR { return static_cast<int64_t>(hn::Lanes(d)); };
  if (const int64_t lanes = lanes_of(wide); count >= lanes) {
    constexpr auto line = static_cast<int64_t>(64 / sizeof(T)), ahead = static_cast<int64_t>(4096 / sizeof(T));
    for (int64_t r = 0; r < 2 * rows; ++r, in += r % 2 == 0 ? count : 0, out += 2 * count)
      for (int64_t i = 0; i < count; i += lanes) {
        i = std::min(i, count - lanes);  // the last one begins before what is left
        for (int64_t at = 0; at < 2 * lanes; at += line) __builtin_prefetch(out + 2 * i + ahead + at, 1);
        const auto v = hn::LoadU(wide, in + i);
        hn::StoreInterleaved2(v, v, wide, out + 2 * i);
      }
    return;
  }
  if (const int64_t lanes = lanes_of(narrow); count >= lanes) {
    for (int64_t r = 0; r < rows; ++r, in += count, out += 4 * count)
      for (int64_t i = 0; i < count; i += lanes) {
        i = std::min(i, count - lanes);
        const auto v = hn::LoadU(narrow, in + i);
        hn::StoreInterleaved2(v, v, narrow, out + 2 * i);
        hn::StoreInterleaved2(v, v, narrow, out + 2 * count + 2 * i);
      }
    return;
  }
  for (int64_t r = 0; r < rows; ++r, in += count, out += 4 * count)
    for (int64_t i = 0; i < count; ++i)
      out[2 * i] = out[2 * i + 1] = out[2 * (count + i)] = out[2 * (count + i) + 1] = in[i];
}
#else
template <class T>
void repeat_rows_twice(const T* in, int64_t rows, int64_t count, T* out) {
  for (int64_t r = 0; r < rows; ++r, in += count, out += 4 * count)
    for (int64_t i = 0; i < count; ++i)
      out[2 * i] = out[2 * i + 1] = out[2 * (count + i)] = out[2 * (count + i) + 1] = in[i];
}
#endif

void double_rows(int64_t width, const char* in, int64_t rows, int64_t count, char* out) {
  with_width(width, [&]<class T>(T) HWY_ATTR {
    repeat_rows_twice(reinterpret_cast<const T*>(in), rows, count, reinterpret_cast<T*>(out));
  });
}

void repeat_elements(int64_t width, const char* in, int64_t count, char* out) {
  with_width(width, [&]<class T>(T)
                        HWY_ATTR { repeat_twice(reinterpret_cast<const T*>(in), count, reinterpret_cast<T*>(out)); });
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(rising_words);
HWY_EXPORT(repeat_elements);
HWY_EXPORT(double_rows);

namespace {

template <class T>
void pick(const char* in, const int32_t* table, int64_t count, char* out) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(out + i * static_cast<int64_t>(sizeof(T)), in + table[i] * static_cast<int64_t>(sizeof(T)), sizeof(T));
}

// Each of `length` elements twice.
bool doubles(const std::vector<int32_t>& table, int64_t length) {
  if (static_cast<int64_t>(table.size()) != 2 * length) return false;
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i] != static_cast<int32_t>(i / 2)) return false;
  return true;
}

}  // namespace

NearestResize::NearestResize(int64_t width, const std::vector<int64_t>& dims, std::vector<std::vector<int32_t>> tables,
                             int64_t in_pitch, int64_t out_pitch)
    : element_(width) {
  size_t last = 0;  // axis that is resized
  std::vector<int64_t> sizes, in(dims.size()), out(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!tables[d].empty() || dims[d] == 0) last = d;
    for (const int32_t index : tables[d])
      if (index < 0 || index >= dims[d])
        throw Error(ErrorCode::internal, "a resize of an axis of " + std::to_string(dims[d]) +
                                             " elements was given the index " + std::to_string(index));
    sizes.push_back(tables[d].empty() ? dims[d] : static_cast<int64_t>(tables[d].size()));
  }
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {  // another axis may have any length, no table has
    sizes_ = {0};
    tables_.resize(1);
    in_ = out_ = {0};
    rows_ = 0;
    return;
  }
  for (size_t d = dims.size(); d-- > 0;) {
    in[d] = d + 1 == dims.size() ? width : d + 2 == dims.size() ? in_pitch * width : in[d + 1] * dims[d + 1];
    out[d] = d + 1 == dims.size() ? width : d + 2 == dims.size() ? out_pitch * width : out[d + 1] * sizes[d + 1];
  }
  // Behind the last one all lies together, but for rows with gaps: those are walked, too.
  while (last + 2 < dims.size() && (in_pitch != dims.back() || out_pitch != dims.back())) ++last;
  for (size_t d = 0; d <= last; ++d) {
    if (tables[d].empty()) {
      tables[d].resize(static_cast<size_t>(sizes[d]));
      std::iota(tables[d].begin(), tables[d].end(), 0);
    }
  }
  for (size_t d = last + 1; d < dims.size(); ++d) block_ *= sizes[d];
  block_ *= width;
  tables.resize(last + 1);
  in.resize(last + 1);
  out.resize(last + 1);
  sizes.resize(last + 1);
  length_ = dims[last];
  // Short rows become one with those of their image, whose elements are looked up alike: 411 of 27 x 3 by halves took
  // 23 us row by row. Twice as many of both have a loop of their own.
  constexpr int64_t short_row = 16, most_joined = 4096, longest = 16;
  const auto joins = [&] {
    if (last == 0 || sizes[last] >= short_row || sizes[last - 1] * sizes[last] > most_joined || block_ > longest)
      return false;
    if (dims[last - 1] > std::numeric_limits<int32_t>::max() / length_) return false;
    if (doubles(tables[last], length_) && doubles(tables[last - 1], dims[last - 1])) return false;
    return in[last] == block_ && out[last] == block_ && in[last - 1] == length_ * block_ &&
           out[last - 1] == sizes[last] * block_;
  };
  while (joins()) {
    std::vector<int32_t> joined;
    for (const int32_t row : tables[last - 1])
      for (const int32_t i : tables[last]) joined.push_back(static_cast<int32_t>(row * length_ + i));
    length_ *= dims[last - 1];
    tables.pop_back();
    in.pop_back();
    out.pop_back();
    sizes.pop_back();
    tables[--last] = std::move(joined);
    sizes[last] = static_cast<int64_t>(tables[last].size());
    in[last] = out[last] = block_;
  }
  for (size_t d = 0; d < last; ++d) rows_ *= sizes[d];
  rises_ = std::is_sorted(tables.back().begin(), tables.back().end());
  doubles_ = doubles(tables.back(), length_);
  doubles_rows_ =
      doubles_ && last > 0 && block_ == element_ && element_ <= 8 && doubles(tables[last - 1], dims[last - 1]);
  sizes_ = std::move(sizes);
  tables_ = std::move(tables);
  in_ = std::move(in);
  out_ = std::move(out);
}

void NearestResize::run_rows(int64_t begin, int64_t end, const char* in, char* out) const {
  const size_t last = sizes_.size() - 1;
  const int32_t* table = tables_[last].data();
  const int64_t count = sizes_[last];
  const bool dense = in_[last] == block_ && out_[last] == block_;
  const auto repeat = HWY_DYNAMIC_DISPATCH(repeat_elements);
  const char *before_from = nullptr, *before_to = nullptr;
  const auto run_row = [&](const char* from, char* to) {
    if (from == before_from && dense) {  // enlarging repeats whole rows
      std::memcpy(to, before_to, static_cast<size_t>(count * block_));
    } else if (dense && doubles_ && block_ == element_ && block_ <= 8) {
      repeat(block_, from, length_, to);
    } else if (dense && block_ == 4 && element_ == 4 && rises_) {
      HWY_DYNAMIC_DISPATCH(rising_words)
      (reinterpret_cast<const uint32_t*>(from), length_, table, count, reinterpret_cast<uint32_t*>(to));
    } else if (dense && (block_ == 1 || block_ == 2 || block_ == 4 || block_ == 8 || block_ == 16)) {
      with_any_width(block_, [&](auto e) { pick<decltype(e)>(from, table, count, to); });
    } else {
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * out_[last], from + table[i] * in_[last], static_cast<size_t>(block_));
    }
    before_from = from;
    before_to = to;
  };
  if (last == 0) return run_row(in, out);
  // The rows of the innermost axis before the last, one such axis after the other.
  const size_t inner = last - 1;
  const int32_t* rows = tables_[inner].data();
  for (int64_t row = begin; row < end;) {
    const char* from = in;
    char* to = out;
    int64_t rest = row / sizes_[inner];
    for (size_t d = inner; d-- > 0; rest /= sizes_[d]) {
      from += tables_[d][static_cast<size_t>(rest % sizes_[d])] * in_[d];
      to += rest % sizes_[d] * out_[d];
    }
    const int64_t first = row % sizes_[inner], past = std::min(sizes_[inner], first + end - row);
    int64_t i = first;
    if (doubles_rows_ && dense && in_[inner] == length_ * block_ && out_[inner] == count * block_) {
      if (i % 2 != 0) run_row(from + rows[i] * in_[inner], to + i * out_[inner]), ++i;
      const int64_t pairs = (past - i) / 2;
      HWY_DYNAMIC_DISPATCH(double_rows)(block_, from + i / 2 * in_[inner], pairs, length_, to + i * out_[inner]);
      i += 2 * pairs;
    }
    for (; i < past; ++i) run_row(from + rows[i] * in_[inner], to + i * out_[inner]);
    row += past - first;
  }
}

void NearestResize::run(ThreadPool& pool, const void* in, void* out) const {
  const int64_t bytes = sizes_.back() * block_;
  if (rows_ == 0 || bytes == 0) return;
  for_pieces(pool, rows_, (least_bytes + bytes - 1) / bytes, [&](int64_t begin, int64_t end) {
    run_rows(begin, end, static_cast<const char*>(in), static_cast<char*>(out));
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
