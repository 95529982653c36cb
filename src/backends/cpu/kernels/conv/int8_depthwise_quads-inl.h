// Depthwise sums by `vpdpbusd`: four lines' bytes of a channel side by side, times four weights. Included once per
// instruction set; who calls it has asked the machine.
#if defined(CAMSHAFT_CPU_INT8_DEPTHWISE_QUADS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_INT8_DEPTHWISE_QUADS_INL_H
#undef CAMSHAFT_CPU_INT8_DEPTHWISE_QUADS_INL_H
#else
#define CAMSHAFT_CPU_INT8_DEPTHWISE_QUADS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/conv/int8_depthwise_lines.h"
#include "backends/cpu/kernels/for_each_of-inl.h"
#include "backends/cpu/kernels/gemm/int8_steps-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace quads {

#if CAMSHAFT_HAS_BYTE_PRODUCT

namespace hn = hwy::HWY_NAMESPACE;
using D8 = hn::ScalableTag<uint8_t>;
using D16 = hn::ScalableTag<uint16_t>;
using D32 = hn::ScalableTag<int32_t>;
inline constexpr int64_t kLanes = HWY_LANES(int32_t);
inline constexpr int64_t kBytes = 4 * kLanes;  // channels that are prepared together

// Where the bytes of a vector must lie so that interleaving four of them, by 128 bits each, leaves quads in order.
HWY_INLINE hn::Vec<D32> spread_order() {
  constexpr int64_t blocks = kLanes / 4;
  HWY_ALIGN int32_t order[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) order[i] = static_cast<int32_t>(i % 4 * blocks + i / 4);
  return hn::Load(D32(), order);
}

// Where sums go: to `sums`, `ld` from pixel to pixel, or, if there is a writer, to rows and columns of the result.
struct SumsPlace {
  int32_t* sums;
  int64_t ld;
  const int8::StepsWriter* writer;
  int64_t row, column;
};

// The first `vectors` vectors of quads.
HWY_INLINE void store_quads(hn::Vec<D8> a, hn::Vec<D8> b, hn::Vec<D8> c, hn::Vec<D8> d, int64_t vectors, int32_t* to) {
  const D8 d8;
  const D16 d16;
  const auto put = [&](int64_t v, hn::Vec<D16> quads)
                       HWY_ATTR { hn::StoreU(hn::BitCast(D32(), quads), D32(), to + v * kLanes); };
  const auto ab = hn::BitCast(d16, hn::InterleaveLower(d8, a, b)), cd = hn::BitCast(d16, hn::InterleaveLower(d8, c, d));
  put(0, hn::InterleaveLower(d16, ab, cd));
  if (vectors > 1) put(1, hn::InterleaveUpper(d16, ab, cd));
  if (vectors <= 2) return;
  const auto ab2 = hn::BitCast(d16, hn::InterleaveUpper(d8, a, b)),
             cd2 = hn::BitCast(d16, hn::InterleaveUpper(d8, c, d));
  put(2, hn::InterleaveLower(d16, ab2, cd2));
  if (vectors > 3) put(3, hn::InterleaveUpper(d16, ab2, cd2));
}

// Columns of quads: [column][quad of lines][vector]. `load` gives a line's bytes at a pixel.
template <bool kFlips, class Load>
HWY_INLINE void prepare_with(const LinePiece& piece, int64_t vectors, int32_t* columns, Load&& load) {
  const Int8DepthwiseProblem& p = *piece.p;
  const ConvShape& s = p.shape;
  const int64_t stride = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t step = p.weights.line_quads() * vectors * kLanes;
  HWY_ALIGN uint8_t padding[kBytes];
  std::memset(padding, p.padding, sizeof padding);
  const auto flipped = [](hn::Vec<D8> bytes)
                           HWY_ATTR { return kFlips ? hn::Xor(bytes, hn::Set(D8(), uint8_t{0x80})) : bytes; };
  const auto order = hn::IndicesFromVec(D32(), spread_order());
  const auto outside_quads = hn::BitCast(D32(), flipped(hn::Load(D8(), padding)));
  const auto spread = [&](const uint8_t* from) HWY_ATTR {
    return hn::BitCast(D8(), hn::TableLookupLanes(hn::BitCast(D32(), flipped(load(from))), order));
  };
  const int64_t all = piece.blocks->lines;
  for (int64_t l = 0; l < all; l += 4) {
    // Where there are not four more, the first one again: its weights are 0.
    const bool is_full = l + 4 <= all;
    const uint8_t* lines[4];
    int64_t strides[4];
    for (int64_t k = 0; k < 4; ++k) {
      const uint8_t* line = piece.lines[l + k < all ? l + k : l];
      lines[k] = line ? line + piece.channel : padding;
      strides[k] = line ? stride : 0;
    }
    int32_t* to = columns + l / 4 * vectors * kLanes;
    for_columns(
        piece,
        [&](int64_t count) HWY_ATTR {
          for (; count > 0; --count, to += step)
            for (int64_t v = 0; v < vectors; ++v) hn::StoreU(outside_quads, D32(), to + v * kLanes);
        },
        [&](int64_t column, int64_t apart, int64_t count) HWY_ATTR {
          const uint8_t *a = lines[0] + column * strides[0], *b = lines[1] + column * strides[1],
                        *c = lines[2] + column * strides[2], *d = lines[3] + column * strides[3];
          for (; count > 0; --count, to += step) {
            const auto first = spread(a);
            store_quads(first, spread(b), spread(c), is_full ? spread(d) : first, vectors, to);
            a += apart * strides[0], b += apart * strides[1], c += apart * strides[2], d += apart * strides[3];
          }
        });
  }
}

template <bool kFlips>
HWY_INLINE void prepare(const LinePiece& piece, int64_t vectors, int32_t* columns) {
  if (piece.count == kBytes) {
    const auto load = [](const uint8_t* from) HWY_ATTR { return hn::LoadU(D8(), from); };
    return prepare_with<kFlips>(piece, vectors, columns, load);
  }
#if CAMSHAFT_TARGET_IS_AVX512
  const auto mask = hn::FirstN(D8(), static_cast<size_t>(piece.count));
  const auto load = [&](const uint8_t* from) HWY_ATTR { return hn::MaskedLoad(mask, D8(), from); };
#else
  const auto load = [&](const uint8_t* from) HWY_ATTR {
    HWY_ALIGN uint8_t last[kBytes] = {};
    std::memcpy(last, from, static_cast<size_t>(piece.count));
    return hn::Load(D8(), last);
  };
#endif
  prepare_with<kFlips>(piece, vectors, columns, load);
}

// Weights of each of `results` lines of the result that are computed from the same quads: [result][column][quad]
// [channel, kBytes of them]. Those of further ones are moved by as many of the image's lines: by three at most, or
// LineBlocks had found no room for them.
HWY_INLINE void take_weights(const Int8DepthwiseProblem& p, int64_t channel, int64_t results, int32_t* to) {
  const D32 d;
  const hn::RebindToUnsigned<D32> du;
  const Int8DepthwiseWeights& w = p.weights;
  const int64_t quads = w.line_quads(), padded = w.padded(), count = std::min<int64_t>(kBytes, padded - channel);
  const auto* from = reinterpret_cast<const int32_t*>(p.quads) + channel;
  for (int64_t result = 0; result < results; ++result) {
    const int bits = static_cast<int>(result * p.shape.stride_h) * 8;
    for (int64_t column = 0; column < w.columns; ++column)
      for (int64_t quad = 0; quad < quads; ++quad, to += kBytes) {
        const int32_t* own = from + (column * quads + quad) * padded;
        for (int64_t c = 0; c < count; c += kLanes) {
          auto words = hn::ShiftLeftSame(hn::LoadU(d, own + c), bits);
          if (bits > 0 && quad > 0) {
            const auto before = hn::BitCast(du, hn::LoadU(d, own - padded + c));
            words = hn::Or(words, hn::BitCast(d, hn::ShiftRightSame(before, 32 - bits)));
          }
          hn::StoreU(words, d, to + c);
        }
      }
  }
}

// `put(pixel, sums)` gets the sums of each pixel in R lines of the result, for NV vectors from `first` on of the
// `vectors` that were prepared. Kernels have kColumns x kQuads words a channel; 0: any number. They are held in
// registers where these are enough.
template <int kColumns, int kQuads, int R, int NV, class Put>
HWY_INLINE void sum_vectors(const LinePiece& piece, const int32_t* weights, int64_t first, int64_t vectors,
                            const int32_t* columns, Put&& put) {
  const D32 d;
  const Int8DepthwiseProblem& p = *piece.p;
  const int64_t quads = kQuads ? kQuads : p.weights.line_quads(), taps = kColumns ? kColumns : p.weights.columns;
  const int64_t word = R > 1 ? kBytes : p.weights.padded();  // from word to word
  const int64_t line_words = taps * quads * kBytes, column = quads * vectors * kLanes;
  const int64_t step = piece.blocks->step * column;
  const int64_t apart = (piece.blocks->apart ? 1 : p.shape.dilation_w) * column;  // from tap to tap
  const int64_t pixels = piece.pixels;
  const int32_t* from = columns + first * kLanes;
  weights += first * kLanes;
  hn::Vec<D32> begin[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) begin[v] = hn::LoadU(d, p.begin + piece.channel + (first + v) * kLanes);
  constexpr int words = kColumns * kQuads;
  constexpr bool holds = words > 0 && words * R * NV <= (CAMSHAFT_TARGET_IS_AVX512 ? 20 : 6);
  [[maybe_unused]] hn::Vec<D32> held[holds ? R * words * NV : 1];
  if constexpr (holds) {
#pragma GCC unroll 64
    for (int i = 0; i < words; ++i)
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v)
          held[(i * R + r) * NV + v] = hn::LoadU(d, weights + r * line_words + i * word + v * kLanes);
  }
  for (int64_t i = 0; i < pixels; ++i, from += step) {
    hn::Vec<D32> sum[R][NV];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[r][v] = begin[v];
    // Or the compiler keeps the address of each vector of weights in memory, and reads it before the vector.
    const int32_t* here = weights;
    __asm__("" : "+r"(here));
    const auto add = [&](int64_t k, int64_t q, int64_t at) CAMSHAFT_INLINE_LAMBDA {
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) {
        const auto image = hn::LoadU(d, from + k * apart + (q * vectors + v) * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          if constexpr (holds) {
            sum[r][v] = add_byte_dots(sum[r][v], image, held[(at * R + r) * NV + v]);
          } else {
            sum[r][v] = add_byte_dots(sum[r][v], image, here + r * line_words + at * word + v * kLanes);
          }
        }
      }
    };
    if constexpr (kColumns > 0) {
#pragma GCC unroll 8
      for (int k = 0; k < kColumns; ++k)
#pragma GCC unroll 4
        for (int q = 0; q < kQuads; ++q) add(k, q, k * kQuads + q);
    } else {
      for (int64_t k = 0; k < taps; ++k)
        for (int64_t q = 0; q < quads; ++q) add(k, q, k * quads + q);
    }
    put(i, sum);
  }
}

template <int kColumns, int kQuads, int R, int NV>
HWY_NOINLINE void sum_to(const LinePiece& piece, const int32_t* weights, int64_t first, int64_t vectors,
                         const int32_t* columns, const SumsPlace& place) {
  const int64_t there = piece.results;  // of the R lines
  if (place.writer) {
    // A copy that what is written cannot overlap: its members stay in registers.
    const int8::StepsWriter writer = *place.writer;
    const int64_t row = place.row, at = place.column + first * kLanes, width = piece.p->shape.out_w();
    const int64_t count = std::min<int64_t>(NV * kLanes, piece.count - first * kLanes);
    return sum_vectors<kColumns, kQuads, R, NV>(
        piece, weights, first, vectors, columns,
        [&](int64_t pixel, const hn::Vec<D32>(&sum)[R][NV])
            CAMSHAFT_INLINE_LAMBDA { writer.write_tile<R, NV>(sum, row + pixel, width, there, at, count); });
  }
  int32_t* const sums = place.sums + first * kLanes;
  const int64_t line_sums = piece.blocks->pixels * place.ld;
  sum_vectors<kColumns, kQuads, R, NV>(piece, weights, first, vectors, columns,
                                       [&](int64_t pixel, const hn::Vec<D32>(&sum)[R][NV]) CAMSHAFT_INLINE_LAMBDA {
#pragma GCC unroll 4
                                         for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
                                           for (int v = 0; v < NV; ++v)
                                             hn::StoreU(sum[r][v], D32(),
                                                        sums + r * line_sums + pixel * place.ld + v * kLanes);
                                       });
}

// As many vectors at once as there are registers for.
template <int kColumns, int kQuads, int R, int NV>
HWY_INLINE void sum_all(const LinePiece& piece, const int32_t* weights, int64_t vectors, const int32_t* columns,
                        const SumsPlace& place) {
  int64_t first = 0;
  for (; first + NV <= vectors; first += NV)
    sum_to<kColumns, kQuads, R, NV>(piece, weights, first, vectors, columns, place);
  if constexpr (NV > 2) {
    if (first + 2 <= vectors) {
      sum_to<kColumns, kQuads, R, 2>(piece, weights, first, vectors, columns, place);
      first += 2;
    }
  }
  if constexpr (NV > 1) {
    if (first < vectors) sum_to<kColumns, kQuads, R, 1>(piece, weights, first, vectors, columns, place);
  }
}

// Up to kBytes channels. `weights` are those of take_weights(), or of one line the model's.
HWY_INLINE void sum_piece(const LinePiece& piece, const int32_t* weights, int32_t* columns, const SumsPlace& place) {
  const int64_t vectors = (piece.count + kLanes - 1) / kLanes;
  piece.p->is_signed ? prepare<true>(piece, vectors, columns) : prepare<false>(piece, vectors, columns);
  const int64_t taps = piece.p->weights.columns, quads = piece.p->weights.line_quads();
  const int64_t results = piece.blocks->results;
  const auto sum = [&]<int kColumns, int kQuads, int kHeld>() HWY_ATTR {
    constexpr bool many = CAMSHAFT_TARGET_IS_AVX512;  // registers
    if (results >= 4) return sum_all < kColumns, kQuads, 4, many ? 4 : 1 > (piece, weights, vectors, columns, place);
    if (results >= 2) return sum_all < kColumns, kQuads, 2, many ? 2 : 1 > (piece, weights, vectors, columns, place);
    sum_all<kColumns, kQuads, 1, many ? kHeld : kHeld / 2>(piece, weights, vectors, columns, place);
  };
  if (taps == 3 && quads == 1) return sum.template operator()<3, 1, 4>();
  if (taps == 5 && quads == 2) return sum.template operator()<5, 2, 2>();
  sum.template operator()<0, 0, 4>();
}

#endif

}  // namespace quads
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
