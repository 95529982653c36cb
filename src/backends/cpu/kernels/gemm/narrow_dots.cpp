#include "backends/cpu/kernels/gemm/narrow_dots.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/gemm/narrow_tile.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/narrow_dots.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/narrow_parameters-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if CAMSHAFT_HAS_BYTE_PRODUCT

using DotTag = hn::ScalableTag<float>;
using SumTag = hn::ScalableTag<int32_t>;
using DotVec = hn::Vec<DotTag>;
using SumVec = hn::Vec<SumTag>;

constexpr int kMostVectors = kTiles.product.vectors;
constexpr int kDigits = NarrowDigits::kDigits;

HWY_INLINE constexpr int64_t dot_lanes() {
  return static_cast<int64_t>(HWY_LANES(float));
}

HWY_INLINE DotVec load_some(const float* from, int64_t count) {
  const DotTag d;
  return count >= dot_lanes() ? hn::LoadU(d, from) : masked_load(hn::FirstN(d, static_cast<size_t>(count)), d, from);
}

// The bits of the largest magnitude; those of infinities and NaN are larger than all others.
HWY_INLINE int32_t largest_bits(const float* x, int64_t count) {
  const SumTag di;
  SumVec most = hn::Zero(di);
  const SumVec magnitude = hn::Set(di, 0x7FFFFFFF);
  for (int64_t k = 0; k < count; k += dot_lanes())
    most = hn::Max(most, hn::And(hn::BitCast(di, load_some(x + k, count - k)), magnitude));
  return hn::GetLane(hn::MaxOfLanes(di, most));
}

HWY_INLINE float power_of_two(int32_t exponent) {
  const int32_t bits = (exponent + 127) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Elements [0, count) in digits; the words of a whole vector more than there are may be written.
HWY_INLINE void write_digits(const float* x, int64_t count, float factor, uint32_t* words, int32_t* sums) {
  const DotTag d;
  const SumTag di;
  const hn::Repartition<uint8_t, SumTag> bytes;
  // Byte i of each of four neighbours, side by side.
  HWY_ALIGN static constexpr uint8_t by_digit[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const auto order = hn::LoadDup128(bytes, by_digit);
  const SumVec half = hn::Set(di, static_cast<int32_t>(0x80808080U)), ones = hn::Set(di, 0x01010101);
  const DotVec times = hn::Set(d, factor);
  SumVec sum = hn::Zero(di);
  for (int64_t k = 0; k < count; k += dot_lanes()) {
    const SumVec steps = hn::NearestInt(hn::Mul(load_some(x + k, count - k), times));
    // Half a digit more in each, taken away again from each by itself: digits from -128 to 127.
    const SumVec digits = hn::Xor(hn::Add(steps, half), half);
    const SumVec turned = hn::BitCast(di, hn::TableLookupBytes(hn::BitCast(bytes, digits), order));
    hn::StoreU(turned, di, reinterpret_cast<int32_t*>(words) + k);
    sum = add_byte_dots(sum, ones, turned);
  }
  HWY_ALIGN int32_t parts[HWY_LANES(int32_t)];
  hn::Store(sum, di, parts);
  std::fill(sums, sums + kDigits, 0);
  for (int i = 0; i < static_cast<int>(HWY_LANES(int32_t)); ++i) sums[i % kDigits] += parts[i];
}

void make_digits_target(const NarrowGemm& args, const NarrowDigits& digits) {
  const NarrowWeights& w = *args.weights;
  constexpr int32_t not_finite = 0x7F800000, digit_bits = 30, least = digit_bits - 127 + 1;
  for (int64_t r = 0; r < args.m; ++r) {
    const float* row = args.a + r * args.lda;
    uint32_t* words = digits.words + r * digits.row_words;
    bool finite = true;
    for (int64_t i = 0; i < digits.chunks; ++i) {
      const NarrowWeights::Chunk chunk = w.chunk(i);
      const int64_t k0 = chunk.word0 * w.word_elements(), k1 = std::min(w.k, chunk.word1 * w.word_elements());
      const int32_t bits = largest_bits(row + k0, k1 - k0);
      finite = finite && bits < not_finite;
      if (!finite) break;
      // Smaller than 2 to this power; what is tiny throughout counts as 0.
      const int32_t power = std::max((bits >> 23) - 126, least);
      const int64_t at = r * digits.chunks + i;
      digits.units[at] = power_of_two(power - digit_bits);
      write_digits(row + k0, k1 - k0, power_of_two(digit_bits - power), words + k0, digits.sums + at * kDigits);
    }
    digits.are_finite[r] = finite;
    const int64_t stored = w.words.k * w.word_elements();
    for (int64_t k = (w.k + 3) / 4 * 4; k < stored; ++k) words[k] = 0;
  }
}

// Codes of quad `kQuad` of each word.
template <int kBits, int kQuad>
HWY_INLINE SumVec codes_of(SumVec words) {
  const SumTag di;
  if constexpr (kBits == 8) return words;
  const hn::RebindToUnsigned<SumTag> du;
  const SumVec mask = hn::Set(di, static_cast<int32_t>(((1U << kBits) - 1) * 0x01010101U));
  return hn::And(hn::BitCast(di, hn::ShiftRight<kQuad * kBits>(hn::BitCast(du, words))), mask);
}

template <int kBits, int kQuad, int NV>
HWY_INLINE void quad_step(const SumVec (&words)[NV], const uint32_t* digits, SumVec (&sum)[kDigits][NV]) {
  const SumTag di;
  SumVec codes[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) codes[v] = codes_of<kBits, kQuad>(words[v]);
#pragma GCC unroll 4
  for (int i = 0; i < kDigits; ++i) {
    const SumVec digit = hn::Set(di, static_cast<int32_t>(digits[kQuad * kDigits + i]));
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sum[i][v] = add_byte_dots(sum[i][v], codes[v], digit);
  }
}

// The zero point of all weights.
HWY_INLINE int32_t all_zeros(const NarrowGemm& args) {
  return args.zeros.bytes ? 0 : static_cast<int32_t>(args.zeros.all);
}

// Weights are asked for so many bytes ahead of their turn by the first row. Without, products and the wait for memory
// take turns: one token of 0.5 B weights took 30.0 ms on a Xeon (10 of 17 GB/s), and takes 19.2.
constexpr uintptr_t kBytesAhead = 2048;

// total += (codes - zero) · scale · x of one chunk and row; `sum` begins with what zero points take away.
template <int kBits, int NV>
HWY_INLINE void chunk_dots(const uint32_t* words, int64_t count, const uint32_t* digits, float unit, bool asks_ahead,
                           const DotVec (&scale)[NV], SumVec (&sum)[kDigits][NV], float* total) {
  const DotTag d;
  const SumTag di;
  constexpr int64_t lanes = dot_lanes(), in_word = 32 / kBits, stored = NV * lanes;
  for (int64_t w = 0; w < count; ++w, words += stored, digits += in_word) {
    if (asks_ahead)
      for (int v = 0; v < NV; ++v) __builtin_prefetch(at_address(address_of(words + v * lanes) + kBytesAhead), 0, 3);
    SumVec of_word[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) of_word[v] = hn::LoadU(di, reinterpret_cast<const int32_t*>(words) + v * lanes);
    quad_step<kBits, 0, NV>(of_word, digits, sum);
    if constexpr (kBits <= 4) quad_step<kBits, 1, NV>(of_word, digits, sum);
    if constexpr (kBits == 2) {
      quad_step<kBits, 2, NV>(of_word, digits, sum);
      quad_step<kBits, 3, NV>(of_word, digits, sum);
    }
  }
  const DotVec units = hn::Set(d, unit), upper = hn::Set(d, 65536.0F);
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    // Two digits are a number that i32 holds: 128 times 255 (8 bits) · 2^14, 512 times 3 (2 bits) · 2^14.
    const SumVec low = hn::Add(hn::ShiftLeft<8>(sum[1][v]), sum[0][v]),
                 high = hn::Add(hn::ShiftLeft<8>(sum[3][v]), sum[2][v]);
    const DotVec all = hn::MulAdd(hn::ConvertTo(d, high), upper, hn::ConvertTo(d, low));
    float* to = total + v * lanes;
    hn::StoreU(hn::MulAdd(hn::Mul(all, units), scale[v], hn::LoadU(d, to)), d, to);
  }
}

template <int kBits, int NV>
HWY_NOINLINE void panel_dots(const NarrowGemm& args, const NarrowDigits& digits, int64_t panel, int64_t begin,
                             int64_t end, float* sums) {
  const DotTag d;
  const SumTag di;
  const hn::Rebind<uint8_t, SumTag> bytes;
  const NarrowWeights& w = *args.weights;
  constexpr int64_t lanes = dot_lanes(), stored = NV * lanes;
  HWY_ALIGN float total[kFewNarrowRows * stored];
  std::fill(total, total + args.m * stored, 0.0F);
  const PackedLayout parameters = w.parameters();
  const uint32_t* words = reinterpret_cast<const uint32_t*>(args.packed) + w.words.offset(panel);
  for (int64_t i = begin; i < end; ++i) {
    const NarrowWeights::Chunk chunk = w.chunk(i);
    const int64_t at = parameters.offset(panel) + chunk.block * stored;
    DotVec scale[NV];
    block_scales<NV>(args, at, scale);
    for (int64_t r = 0; r < args.m; ++r) {
      if (!digits.are_finite[r]) continue;
      const int64_t of_row = r * digits.chunks + i;
      const int32_t* digit_sums = digits.sums + of_row * kDigits;
      SumVec sum[kDigits][NV];
      for (int g = 0; g < kDigits; ++g) {
        const SumVec less = hn::Set(di, -digit_sums[g]), start = hn::Set(di, -digit_sums[g] * all_zeros(args));
        for (int v = 0; v < NV; ++v)
          sum[g][v] = args.zeros.bytes
                          ? hn::Mul(hn::PromoteTo(di, hn::LoadU(bytes, args.zeros.bytes + at + v * lanes)), less)
                          : start;
      }
      chunk_dots<kBits, NV>(words + chunk.word0 * stored, chunk.word1 - chunk.word0,
                            digits.words + r * digits.row_words + chunk.word0 * w.word_elements(), digits.units[of_row],
                            r == 0, scale, sum, total + r * stored);
    }
  }
  const int64_t column = panel * w.words.width, columns = std::min<int64_t>(stored, w.words.n - column);
  for (int64_t r = 0; r < args.m; ++r) {
    if (!digits.are_finite[r]) {
      NarrowGemm row = args;
      row.m = 1;
      row.a += r * args.lda;
      narrow_panel_sums(row, panel, begin, end, sums + r * w.words.n);
      continue;
    }
    float* to = sums + r * w.words.n + column;
    for (int64_t c = 0; c < columns; c += lanes) {
      const DotVec sum = hn::LoadU(d, total + r * stored + c);
      if (columns - c >= lanes) {
        hn::StoreU(sum, d, to + c);
      } else {
        masked_store(sum, hn::FirstN(d, static_cast<size_t>(columns - c)), d, to + c);
      }
    }
  }
}

template <int NV = kMostVectors>
void panel_dots_of(const NarrowGemm& args, const NarrowDigits& digits, int64_t panel, int64_t begin, int64_t end,
                   float* sums) {
  const NarrowWeights& w = *args.weights;
  if constexpr (NV > 1) {
    if (w.words.columns(panel) < NV * dot_lanes()) return panel_dots_of<NV - 1>(args, digits, panel, begin, end, sums);
  }
  if (w.bits == 2) return panel_dots<2, NV>(args, digits, panel, begin, end, sums);
  if (w.bits == 4) return panel_dots<4, NV>(args, digits, panel, begin, end, sums);
  panel_dots<8, NV>(args, digits, panel, begin, end, sums);
}

void panel_dots_target(const NarrowGemm& args, const NarrowDigits& digits, int64_t panel, int64_t begin, int64_t end,
                       float* sums) {
  panel_dots_of(args, digits, panel, begin, end, sums);
}

#else

void make_digits_target(const NarrowGemm&, const NarrowDigits&) {}
void panel_dots_target(const NarrowGemm&, const NarrowDigits&, int64_t, int64_t, int64_t, float*) {}

#endif

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(make_digits_target);
HWY_EXPORT(panel_dots_target);

namespace {

// A vector more than there are quads: the last one may be cut off.
int64_t words_of_row(const NarrowWeights& w) {
  constexpr int64_t most_lanes = 16;
  return (w.words.k * w.word_elements() + 2 * most_lanes - 1) / most_lanes * most_lanes;
}

}  // namespace

int64_t NarrowDigits::bytes(const NarrowWeights& w, int64_t m) {
  return m * (words_of_row(w) * 4 + w.chunks() * (kDigits + 1) * 4 + 1);
}

NarrowDigits::NarrowDigits(const NarrowWeights& w, int64_t m, void* memory)
    : row_words(words_of_row(w)), chunks(w.chunks()) {
  words = static_cast<uint32_t*>(memory);
  sums = reinterpret_cast<int32_t*>(words + m * row_words);
  units = reinterpret_cast<float*>(sums + m * chunks * kDigits);
  are_finite = reinterpret_cast<bool*>(units + m * chunks);
}

bool takes_digits(const NarrowGemm& args) {
  if (args.zeros.bytes || args.zeros.floats) return args.zeros.bytes != nullptr;
  const float zero = args.zeros.all, most = static_cast<float>((1 << args.weights->bits) - 1);
  return zero >= 0 && zero <= most && std::nearbyint(zero) == zero;
}

void make_digits(const NarrowGemm& args, const NarrowDigits& digits) {
  HWY_DYNAMIC_DISPATCH(make_digits_target)(args, digits);
}

void narrow_panel_dots(const NarrowGemm& args, const NarrowDigits& digits, int64_t panel, int64_t begin, int64_t end,
                       float* sums) {
  HWY_DYNAMIC_DISPATCH(panel_dots_target)(args, digits, panel, begin, end, sums);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
