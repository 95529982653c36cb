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
template <class Load>
HWY_INLINE void prepare_with(const LinePiece& piece, int64_t vectors, int32_t* columns, Load&& load) {
  const Int8DepthwiseProblem& p = *piece.p;
  const ConvShape& s = p.shape;
  const int64_t stride = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t step = p.weights.line_quads() * vectors * kLanes;
  HWY_ALIGN uint8_t padding[kBytes];
  std::memset(padding, p.padding, sizeof padding);
  const auto bits = hn::Set(D8(), p.is_signed ? uint8_t{0x80} : uint8_t{0});
  const auto order = hn::IndicesFromVec(D32(), spread_order());
  const auto outside_quads = hn::BitCast(D32(), hn::Xor(hn::Load(D8(), padding), bits));
  const auto spread = [&](const uint8_t* from) HWY_ATTR {
    return hn::BitCast(D8(), hn::TableLookupLanes(hn::BitCast(D32(), hn::Xor(load(from), bits)), order));
  };
  for (int64_t l = 0; l < p.weights.lines; l += 4) {
    // Where there are not four more, the first one again: its weights are 0.
    const bool is_full = l + 4 <= p.weights.lines;
    const uint8_t* lines[4];
    int64_t strides[4];
    for (int64_t k = 0; k < 4; ++k) {
      const uint8_t* line = piece.lines[l + k < p.weights.lines ? l + k : l];
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

HWY_INLINE void prepare(const LinePiece& piece, int64_t vectors, int32_t* columns) {
  if (piece.count == kBytes)
    return prepare_with(piece, vectors, columns, [](const uint8_t* from) HWY_ATTR { return hn::LoadU(D8(), from); });
#if CAMSHAFT_TARGET_IS_AVX512
  const auto mask = hn::FirstN(D8(), static_cast<size_t>(piece.count));
  prepare_with(piece, vectors, columns, [&](const uint8_t* from) HWY_ATTR { return hn::MaskedLoad(mask, D8(), from); });
#else
  prepare_with(piece, vectors, columns, [&](const uint8_t* from) HWY_ATTR {
    HWY_ALIGN uint8_t last[kBytes] = {};
    std::memcpy(last, from, static_cast<size_t>(piece.count));
    return hn::Load(D8(), last);
  });
#endif
}

// `put(pixel, sums)` gets the sums of each pixel, for NV vectors from `first` on of the `vectors` that were prepared.
// kColumns x kQuads weights are held in registers; 0: of any number.
template <int kColumns, int kQuads, int NV, class Put>
HWY_INLINE void sum_vectors(const LinePiece& piece, int64_t first, int64_t vectors, const int32_t* columns, Put&& put) {
  const D32 d;
  const Int8DepthwiseProblem& p = *piece.p;
  const Int8DepthwiseWeights& w = p.weights;
  const int64_t quads = kQuads ? kQuads : w.line_quads(), taps = kColumns ? kColumns : w.columns;
  const int64_t padded = w.padded(), column = quads * vectors * kLanes, step = piece.blocks->step * column;
  const int64_t apart = (piece.blocks->apart ? 1 : p.shape.dilation_w) * column;  // from tap to tap
  const int64_t pixels = piece.pixels;
  const auto* weights = reinterpret_cast<const int32_t*>(p.quads) + piece.channel + first * kLanes;
  const int32_t* from = columns + first * kLanes;
  hn::Vec<D32> begin[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) begin[v] = hn::LoadU(d, p.begin + piece.channel + (first + v) * kLanes);
  if constexpr (kColumns > 0) {
    hn::Vec<D32> held[kColumns * kQuads * NV];
#pragma GCC unroll 64
    for (int i = 0; i < kColumns * kQuads; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) held[i * NV + v] = hn::LoadU(d, weights + i * padded + v * kLanes);
    for (int64_t i = 0; i < pixels; ++i, from += step) {
      hn::Vec<D32> sum[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; ++v) sum[v] = begin[v];
#pragma GCC unroll 8
      for (int k = 0; k < kColumns; ++k)
#pragma GCC unroll 4
        for (int q = 0; q < kQuads; ++q)
#pragma GCC unroll 4
          for (int v = 0; v < NV; ++v)
            sum[v] = add_byte_dots(sum[v], hn::LoadU(d, from + k * apart + (q * vectors + v) * kLanes),
                                   held[(k * kQuads + q) * NV + v]);
      put(i, sum);
    }
  } else {
    for (int64_t i = 0; i < pixels; ++i, from += step) {
      hn::Vec<D32> sum[1] = {begin[0]};
      for (int64_t k = 0; k < taps; ++k)
        for (int64_t q = 0; q < quads; ++q)
          sum[0] = add_byte_dots(sum[0], hn::LoadU(d, from + k * apart + q * vectors * kLanes),
                                 hn::LoadU(d, weights + (k * quads + q) * padded));
      put(i, sum);
    }
  }
}

template <int kColumns, int kQuads, int NV>
HWY_NOINLINE void sum_to(const LinePiece& piece, int64_t first, int64_t vectors, const int32_t* columns,
                         const SumsPlace& place) {
  if (place.writer) {
    // A copy that what is written cannot overlap: its members stay in registers.
    const int8::StepsWriter writer = *place.writer;
    const int64_t row = place.row, at = place.column + first * kLanes;
    const int64_t count = std::min<int64_t>(NV * kLanes, piece.count - first * kLanes);
    return sum_vectors<kColumns, kQuads, NV>(piece, first, vectors, columns,
                                             [&](int64_t pixel, const hn::Vec<D32>(&sum)[NV])
                                                 HWY_ATTR { writer.write<NV>(sum, row + pixel, at, count); });
  }
  int32_t* const sums = place.sums + first * kLanes;
  sum_vectors<kColumns, kQuads, NV>(piece, first, vectors, columns,
                                    [&](int64_t pixel, const hn::Vec<D32>(&sum)[NV]) HWY_ATTR {
#pragma GCC unroll 4
                                      for (int v = 0; v < NV; ++v)
                                        hn::StoreU(sum[v], D32(), sums + pixel * place.ld + v * kLanes);
                                    });
}

// As many vectors at once as there are registers for.
template <int kColumns, int kQuads, int NV>
HWY_INLINE void sum_all(const LinePiece& piece, int64_t vectors, const int32_t* columns, const SumsPlace& place) {
  int64_t first = 0;
  for (; first + NV <= vectors; first += NV) sum_to<kColumns, kQuads, NV>(piece, first, vectors, columns, place);
  if constexpr (NV > 2) {
    if (first + 2 <= vectors) {
      sum_to<kColumns, kQuads, 2>(piece, first, vectors, columns, place);
      first += 2;
    }
  }
  if constexpr (NV > 1) {
    if (first < vectors) sum_to<kColumns, kQuads, 1>(piece, first, vectors, columns, place);
  }
}

// Up to kBytes channels.
HWY_INLINE void sum_piece(const LinePiece& piece, int32_t* columns, const SumsPlace& place) {
  const int64_t vectors = (piece.count + kLanes - 1) / kLanes;
  prepare(piece, vectors, columns);
  const int64_t taps = piece.p->weights.columns, quads = piece.p->weights.line_quads();
  constexpr bool many = CAMSHAFT_TARGET_IS_AVX512;  // registers
  if (taps == 3 && quads == 1) return sum_all < 3, 1, many ? 4 : 2 > (piece, vectors, columns, place);
  if (taps == 5 && quads == 2) return sum_all < 5, 2, many ? 2 : 1 > (piece, vectors, columns, place);
  if (taps == 7 && quads == 2) return sum_all<7, 2, 1>(piece, vectors, columns, place);
  sum_all<0, 0, 1>(piece, vectors, columns, place);
}

#endif

}  // namespace quads
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
