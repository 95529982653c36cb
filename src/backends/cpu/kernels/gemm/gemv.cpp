#include "backends/cpu/kernels/gemm/gemv.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/gemv.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/gemm/word_product-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using GemvTag = hn::ScalableTag<float>;
using GemvVec = hn::Vec<GemvTag>;

constexpr int kStreams = gemv_streams;

// Part of K, and where its sums go; null: all of K, through the epilogue to C.
struct KPart {
  int64_t begin, end;
  float* sums;
};

HWY_INLINE constexpr int64_t gemv_lanes() {
  return static_cast<int64_t>(HWY_LANES(float));
}

HWY_INLINE void store(GemvVec sum, float* to, int64_t count) {
  const GemvTag d;
  if (count == gemv_lanes()) {
    hn::StoreU(sum, d, to);
  } else {
    masked_store(sum, hn::FirstN(d, static_cast<size_t>(count)), d, to);
  }
}

// What happens to a vector of sums at column `col`, of which `count` lanes exist.
HWY_INLINE void finish(const GemmArgs& args, GemvVec sum, int64_t col, int64_t count) {
  const GemvTag d;
  const Epilogue& epilogue = args.epilogue;
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  // In the order of many rows (gemm_tile-inl.h), of which C may hold one.
  const bool in_place = epilogue.residual == args.c && args.c != nullptr;
  if (in_place) sum = hn::Add(sum, masked_load(mask, d, epilogue.residual + col));
  if (epilogue.bias) sum = hn::Add(sum, masked_load(mask, d, epilogue.bias + col));
  if (epilogue.residual && !in_place) sum = hn::Add(sum, masked_load(mask, d, epilogue.residual + col));
  for (const Residual& more : epilogue.more_residuals)
    if (more.data) sum = hn::Add(sum, masked_load(mask, d, more.data + col));
  store(clamp_keeping_nan(sum, hn::Set(d, epilogue.lo), hn::Set(d, epilogue.hi)), args.c + col, count);
}

// `Streams` panels of `Vectors` vectors each; a column's sum is taken in `split` parts.
template <class Word, int Streams, int Vectors, int split>
void panels_of_row(const GemmArgs& args, const PackedLayout& layout, const KPart& part, int64_t panel) {
  const GemvTag d;
  constexpr int64_t lanes = gemv_lanes();
  GemvVec sum[split][Streams][Vectors];
  const float* b[Streams];
#pragma GCC unroll 4
  for (int s = 0; s < Streams; ++s) {
    b[s] = args.packed_b + layout.offset(panel + s) + part.begin * Vectors * lanes;
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
#pragma GCC unroll 4
      for (int i = 0; i < split; ++i) sum[i][s][v] = hn::Zero(d);
    }
  }
  const float* a_part = args.a + part.begin;
  const int64_t k_count = part.end - part.begin;
  int64_t k = 0;
  for (; k + split <= k_count; k += split) {
#pragma GCC unroll 4
    for (int i = 0; i < split; ++i) {
      const GemvVec a = hn::Set(d, a_part[k + i]);
#pragma GCC unroll 4
      for (int s = 0; s < Streams; ++s) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v)
          sum[i][s][v] = Word::multiply_add(a, hn::LoadU(d, b[s] + ((k + i) * Vectors + v) * lanes), sum[i][s][v]);
      }
    }
  }
  for (; k < k_count; ++k) {
    const GemvVec a = hn::Set(d, a_part[k]);
#pragma GCC unroll 4
    for (int s = 0; s < Streams; ++s) {
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        sum[0][s][v] = Word::multiply_add(a, hn::LoadU(d, b[s] + (k * Vectors + v) * lanes), sum[0][s][v]);
    }
  }
#pragma GCC unroll 4
  for (int s = 0; s < Streams; ++s) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
#pragma GCC unroll 4
      for (int i = 1; i < split; ++i) sum[0][s][v] = hn::Add(sum[0][s][v], sum[i][s][v]);
      const int64_t col = (panel + s) * layout.width + v * lanes;
      const int64_t count = std::min(lanes, args.n - col);
      if (part.sums) {
        store(sum[0][s][v], part.sums + col, count);
      } else {
        finish(args, sum[0][s][v], col, count);
      }
    }
  }
}

template <class Word>
void panels_of_words(const GemmArgs& args, const KPart& part, int64_t p0, int64_t p1) {
  const PackedLayout layout = packed_layout(args.k, args.n);
  constexpr int64_t lanes = gemv_lanes();
  constexpr int vectors = kTiles.product.vectors;
  static_assert(kStreams == 4);
  // How sums are cut hides the latency of the multiply-add. It may depend on the whole product alone, not on which
  // panels a thread has beside each other: the same bits whatever the threads. Tiles of many rows do not cut them.
  const int64_t all_full = args.n / layout.width, full = std::min(p1, all_full);
  int64_t p = p0;
  if (all_full >= kStreams || args.batch_invariant) {
    while (full - p >= 4) panels_of_row<Word, 4, vectors, 1>(args, layout, part, p), p += 4;
    if (full - p >= 2) panels_of_row<Word, 2, vectors, 1>(args, layout, part, p), p += 2;
    if (full - p >= 1) panels_of_row<Word, 1, vectors, 1>(args, layout, part, p), p += 1;
  } else {
    if (full - p >= 2) panels_of_row<Word, 2, vectors, 2>(args, layout, part, p), p += 2;
    if (full - p >= 1) panels_of_row<Word, 1, vectors, 2>(args, layout, part, p), p += 1;
  }
  if (p < p1) {
    const int64_t count = layout.columns(p) / lanes;
    if (args.batch_invariant) {
      if (count == 1) {
        panels_of_row<Word, 1, 1, 1>(args, layout, part, p);
      } else if (count == 2) {
        panels_of_row<Word, 1, 2, 1>(args, layout, part, p);
      } else if (count == 3) {
        panels_of_row<Word, 1, 3, 1>(args, layout, part, p);
      } else {
        panels_of_row<Word, 1, 4, 1>(args, layout, part, p);
      }
    } else if (count == 1) {
      panels_of_row<Word, 1, 1, 4>(args, layout, part, p);
    } else if (count == 2) {
      panels_of_row<Word, 1, 2, 4>(args, layout, part, p);
    } else if (count == 3) {
      panels_of_row<Word, 1, 3, 2>(args, layout, part, p);
    } else {
      panels_of_row<Word, 1, 4, 2>(args, layout, part, p);
    }
  }
  if (part.sums) return;
  const Epilogue& e = args.epilogue;
  const int64_t col0 = p0 * layout.width, columns = std::min(args.n, p1 * layout.width) - col0;
  if (e.activation)
    core_activate(*e.activation, {args.c + col0, columns, 1, columns, e.addend ? e.addend + col0 : nullptr, columns});
  if (e.callback) e.callback(e.context, 0, 1, col0, columns);
  if (e.store) e.store(e.context, args.c + col0, columns, 0, 1, col0, columns);
}

void gemv_panels(const GemmArgs& args, int64_t k0, int64_t k1, int64_t p0, int64_t p1, float* sums) {
#if CAMSHAFT_HAS_BF16_PAIRS
  if (args.words == Words::bf16_pairs) return panels_of_words<PairWords>(args, {k0, k1, sums}, p0, p1);
#endif
  panels_of_words<FloatWords>(args, {k0, k1, sums}, p0, p1);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(gemv_panels);

void gemv(const GemmArgs& args, int64_t p0, int64_t p1) {
  if (p0 < p1) HWY_DYNAMIC_DISPATCH(gemv_panels)(args, 0, args.k, p0, p1, nullptr);
}

void gemv_part(const GemmArgs& args, int64_t k0, int64_t k1, int64_t p0, int64_t p1, float* sums) {
  HWY_DYNAMIC_DISPATCH(gemv_panels)(args, k0, k1, p0, p1, sums);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
