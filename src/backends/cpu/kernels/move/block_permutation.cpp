#include "backends/cpu/kernels/move/block_permutation.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/move/block_permutation.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Elements of a block, of which unit i comes from unit from[i]: bytes, or words of 4 bytes.
void permute_plain(int64_t unit, int64_t block, const uint8_t* from, const char* in, char* out, int64_t count) {
  for (int64_t end = count * block, at = 0; at < end; at += block) {
    if (unit == 1) {
      for (int64_t i = 0; i < block; ++i) out[at + i] = in[at + from[i]];
    } else {
      for (int64_t i = 0; i < block / 4; ++i) std::memcpy(out + at + 4 * i, in + at + 4 * from[i], 4);
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
int64_t most_bytes(bool) {
  return 0;
}
void permute(bool small, int64_t block, const uint8_t* from, const char* in, char* out, int64_t count) {
  permute_plain(small ? 1 : 4, block, from, in, out, count);
}
#else
// Vectors in which units of a block change places.
struct Words {
  using D = hn::ScalableTag<uint32_t>;
  hn::Vec<D> table;
  explicit Words(const uint32_t* from) : table(hn::LoadU(D(), from)) {}
  HWY_INLINE hn::Vec<D> of(hn::Vec<D> v) const { return hn::TableLookupLanes(v, hn::IndicesFromVec(D(), table)); }
};
struct SingleBytes {
  using D = hn::Full128<uint8_t>;
  hn::Vec<D> table;
  explicit SingleBytes(const uint8_t* from) : table(hn::LoadU(D(), from)) {}
  HWY_INLINE hn::Vec<D> of(hn::Vec<D> v) const { return hn::TableLookupBytes(v, table); }
};

// As many whole blocks as a vector has room for, and what is behind them, which the next vector overwrites; how many
// blocks were done.
template <class Units, class D = typename Units::D, class T = hn::TFromD<D> >
int64_t permute_blocks(int64_t block, const uint8_t* from, const char* in, char* out, int64_t count) {
  constexpr D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), bytes = lanes * static_cast<int64_t>(sizeof(T));
  const int64_t units = block / static_cast<int64_t>(sizeof(T)), blocks = bytes / block, step = blocks * block;
  HWY_ALIGN T table[hn::MaxLanes(D())] = {};
  for (int64_t i = 0; i < blocks * units; ++i) table[i] = static_cast<T>(i / units * units + from[i % units]);
  const Units places(table);
  int64_t done = 0;
  for (; done * block + bytes <= count * block; done += blocks, in += step, out += step)
    hn::StoreU(places.of(hn::LoadU(d, reinterpret_cast<const T*>(in))), d, reinterpret_cast<T*>(out));
  return done;
}

// Blocks of one to two vectors, the second of which ends where the block does.
template <class Units, class D = typename Units::D, class T = hn::TFromD<D> >
void permute_pairs(int64_t block, const uint8_t* from, const char* in, char* out, int64_t count) {
  constexpr D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), bytes = lanes * static_cast<int64_t>(sizeof(T));
  const int64_t units = block / static_cast<int64_t>(sizeof(T)), second = units - lanes, behind = block - bytes;
  HWY_ALIGN T table[2][2][hn::MaxLanes(D())] = {}, chooses[2][hn::MaxLanes(D())] = {};
  for (int64_t v = 0; v < 2; ++v) {
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t at = from[(v == 0 ? 0 : second) + i];
      chooses[v][i] = at < lanes;
      table[v][0][i] = static_cast<T>(std::min(at, lanes - 1));
      table[v][1][i] = static_cast<T>(std::max<int64_t>(at - second, 0));
    }
  }
  const Units first0(table[0][0]), first1(table[0][1]), last0(table[1][0]), last1(table[1][1]);
  const auto zero = hn::Zero(d);
  const auto in_first = hn::Ne(hn::LoadU(d, chooses[0]), zero), in_last = hn::Ne(hn::LoadU(d, chooses[1]), zero);
  for (; count > 0; --count, in += block, out += block) {
    const auto a = hn::LoadU(d, reinterpret_cast<const T*>(in)),
               b = hn::LoadU(d, reinterpret_cast<const T*>(in + behind));
    hn::StoreU(hn::IfThenElse(in_first, first0.of(a), first1.of(b)), d, reinterpret_cast<T*>(out));
    hn::StoreU(hn::IfThenElse(in_last, last0.of(a), last1.of(b)), d, reinterpret_cast<T*>(out + behind));
  }
}

int64_t most_bytes(bool small) {
  return small ? 32 : 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<uint8_t>()));
}

template <class Units>
void permute_by(int64_t block, const uint8_t* from, const char* in, char* out, int64_t count) {
  constexpr auto unit = static_cast<int64_t>(sizeof(hn::TFromD<typename Units::D>));
  if (block > static_cast<int64_t>(hn::Lanes(typename Units::D())) * unit)
    return permute_pairs<Units>(block, from, in, out, count);
  const int64_t done = permute_blocks<Units>(block, from, in, out, count);
  permute_plain(unit, block, from, in + done * block, out + done * block, count - done);
}

void permute(bool small, int64_t block, const uint8_t* from, const char* in, char* out, int64_t count) {
  if (small) return permute_by<SingleBytes>(block, from, in, out, count);
  permute_by<Words>(block, from, in, out, count);
}
#endif

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(most_bytes);
HWY_EXPORT(permute);

BlockPermutation::BlockPermutation(int64_t width, const std::vector<int64_t>& order) : small_(width < 4) {
  const int64_t bytes = width * std::ssize(order), unit = small_ ? 1 : 4, parts = width / unit;
  if (order.size() < 2 || bytes > HWY_DYNAMIC_DISPATCH(most_bytes)(small_)) return;
  block_ = bytes;
  for (const int64_t element : order)
    for (int64_t i = 0; i < parts; ++i) from_.push_back(static_cast<uint8_t>(element * parts + i));
}

void BlockPermutation::run(const char* in, char* out, int64_t count) const {
  HWY_DYNAMIC_DISPATCH(permute)(small_, block_, from_.data(), in, out, count);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
