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

// Panels that are read side by side: memory gives more to several streams than to one.
constexpr int kStreams = 4;

HWY_INLINE constexpr int64_t gemv_lanes() {
  return static_cast<int64_t>(HWY_LANES(float));
}

// What happens to a vector of sums at column `col`, of which `count` lanes exist.
HWY_INLINE void finish(const GemmArgs& args, GemvVec sum, int64_t col, int64_t count) {
  const GemvTag d;
  const Epilogue& epilogue = args.epilogue;
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  if (epilogue.bias) sum = hn::Add(sum, masked_load(mask, d, epilogue.bias + col));
  if (epilogue.residual) sum = hn::Add(sum, masked_load(mask, d, epilogue.residual + col));
  for (const Residual& more : epilogue.more_residuals)
    if (more.data) sum = hn::Add(sum, masked_load(mask, d, more.data + col));
  sum = clamp_keeping_nan(sum, hn::Set(d, epilogue.lo), hn::Set(d, epilogue.hi));
  if (count == gemv_lanes()) {
    hn::StoreU(sum, d, args.c + col);
  } else {
    masked_store(sum, mask, d, args.c + col);
  }
}

// `Streams` panels of `Vectors` vectors each; a column's sum is taken in `split` parts.
template <class Word, int Streams, int Vectors, int split>
void panels_of_row(const GemmArgs& args, const PackedLayout& layout, int64_t panel) {
  const GemvTag d;
  constexpr int64_t lanes = gemv_lanes();
  GemvVec sum[split][Streams][Vectors];
  const float* b[Streams];
#pragma GCC unroll 4
  for (int s = 0; s < Streams; ++s) {
    b[s] = args.packed_b + layout.offset(panel + s);
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
#pragma GCC unroll 4
      for (int i = 0; i < split; ++i) sum[i][s][v] = hn::Zero(d);
    }
  }
  int64_t k = 0;
  for (; k + split <= args.k; k += split) {
#pragma GCC unroll 4
    for (int i = 0; i < split; ++i) {
      const GemvVec a = hn::Set(d, args.a[k + i]);
#pragma GCC unroll 4
      for (int s = 0; s < Streams; ++s) {
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v)
          sum[i][s][v] = Word::multiply_add(a, hn::LoadU(d, b[s] + ((k + i) * Vectors + v) * lanes), sum[i][s][v]);
      }
    }
  }
  for (; k < args.k; ++k) {
    const GemvVec a = hn::Set(d, args.a[k]);
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
      finish(args, sum[0][s][v], col, std::min(lanes, args.n - col));
    }
  }
}

template <class Word>
void panels_of_words(const GemmArgs& args, int64_t p0, int64_t p1) {
  const PackedLayout layout = packed_layout(args.k, args.n);
  constexpr int64_t lanes = gemv_lanes();
  constexpr int vectors = kTiles.product.vectors;
  static_assert(kStreams == 4);
  // How sums are cut hides the latency of the multiply-add. It may depend on the whole product alone, not on which
  // panels a thread has beside each other: the same bits whatever the threads.
  const int64_t all_full = args.n / layout.width, full = std::min(p1, all_full);
  int64_t p = p0;
  if (all_full >= kStreams) {
    while (full - p >= 4) panels_of_row<Word, 4, vectors, 1>(args, layout, p), p += 4;
    if (full - p >= 2) panels_of_row<Word, 2, vectors, 1>(args, layout, p), p += 2;
    if (full - p >= 1) panels_of_row<Word, 1, vectors, 1>(args, layout, p), p += 1;
  } else {
    if (full - p >= 2) panels_of_row<Word, 2, vectors, 2>(args, layout, p), p += 2;
    if (full - p >= 1) panels_of_row<Word, 1, vectors, 2>(args, layout, p), p += 1;
  }
  if (p < p1) {
    const int64_t count = layout.columns(p) / lanes;
    if (count == 1) {
      panels_of_row<Word, 1, 1, 4>(args, layout, p);
    } else if (count == 2) {
      panels_of_row<Word, 1, 2, 4>(args, layout, p);
    } else if (count == 3) {
      panels_of_row<Word, 1, 3, 2>(args, layout, p);
    } else {
      panels_of_row<Word, 1, 4, 2>(args, layout, p);
    }
  }
  const Epilogue& e = args.epilogue;
  const int64_t col0 = p0 * layout.width, columns = std::min(args.n, p1 * layout.width) - col0;
  if (e.activation)
    core_activate(*e.activation, {args.c + col0, columns, 1, columns, e.addend ? e.addend + col0 : nullptr, columns});
  if (e.callback) e.callback(e.context, 0, 1, col0, columns);
}

void gemv_panels(const GemmArgs& args, int64_t p0, int64_t p1) {
#if CAMSHAFT_HAS_BF16_PAIRS
  if (args.words == Words::bf16_pairs) return panels_of_words<PairWords>(args, p0, p1);
#endif
  panels_of_words<FloatWords>(args, p0, p1);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(gemv_panels);

void gemv(const GemmArgs& args, int64_t p0, int64_t p1) {
  if (p0 < p1) HWY_DYNAMIC_DISPATCH(gemv_panels)(args, p0, p1);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
