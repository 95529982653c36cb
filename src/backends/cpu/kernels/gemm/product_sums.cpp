#include "backends/cpu/kernels/gemm/product_sums.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/gemm/product_sums.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Columns [begin, end) of a row. The order is that of a product that one thread computes (gemm_tile-inl.h).
void finish_row(const CoreProblem& p, const PartialSums& sums, int64_t row, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  const Epilogue& e = p.epilogue;
  const bool in_place = e.residual == p.c && p.c != nullptr;
  const auto lo = hn::Set(d, e.lo), hi = hn::Set(d, e.hi);
  float* c = finished_row(p, sums, row);
  for (int64_t column = begin; column < end; column += lanes) {
    const int64_t count = std::min(lanes, end - column);
    const auto mask = hn::FirstN(d, static_cast<size_t>(count));
    const auto load = [&](const float* from) HWY_ATTR {
      return count == lanes ? hn::LoadU(d, from + column) : masked_load(mask, d, from + column);
    };
    const float* part = sums.data + row * p.n;
    auto sum = load(part);
    if (in_place && !sums.adds_c_last) sum = hn::Add(sum, load(c));
    for (int64_t i = 1; i < sums.parts; ++i) {
      part += sums.stride;
      sum = hn::Add(load(part), sum);
    }
    if (in_place && sums.adds_c_last) sum = hn::Add(sum, load(c));
    if (e.bias) sum = hn::Add(sum, load(e.bias));
    if (e.residual && !in_place) sum = hn::Add(sum, load(e.residual + row * e.residual_ld));
    for (const Residual& more : e.more_residuals)
      if (more.data) sum = hn::Add(sum, load(more.data + row * more.ld));
    sum = clamp_keeping_nan(sum, lo, hi);
    if (count == lanes) {
      hn::StoreU(sum, d, c + column);
    } else {
      masked_store(sum, mask, d, c + column);
    }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(finish_row);

int64_t finish_grain(int64_t parts) {
  // A thread is woken for 16 KiB of sums at least.
  return 4096 / (packed_layout(1, 1).width * parts) + 1;
}

void finish_panels(const CoreProblem& p, const PartialSums& sums, int64_t begin, int64_t end) {
  const int64_t width = packed_layout(1, p.n).width, panels = divide_up(p.n, width);
  const auto kernel = HWY_DYNAMIC_DISPATCH(finish_row);
  const Epilogue& e = p.epilogue;
  while (begin < end) {
    const int64_t row = begin / panels, first = begin - row * panels, count = std::min(panels - first, end - begin);
    const int64_t column = first * width, columns = std::min(p.n, (first + count) * width) - column;
    kernel(p, sums, row, column, column + columns);
    float* const finished = finished_row(p, sums, row) + column;
    if (e.activation) {
      const float* addend = e.addend ? e.addend + row * e.addend_ld + column : nullptr;
      core_activate(*e.activation, {finished, columns, 1, columns, addend, columns});
    }
    if (e.callback) e.callback(e.context, p.callback_row0 + row, 1, p.callback_col0 + column, columns);
    if (e.store) e.store(e.context, finished, columns, p.callback_row0 + row, 1, p.callback_col0 + column, columns);
    begin += count;
  }
}

void finish_sums(const CoreProblem& p, const PartialSums& sums, ThreadPool& pool) {
  pool.parallel_for(p.m * packed_layout(1, p.n).panels(), finish_grain(sums.parts),
                    [&](int64_t begin, int64_t end) { finish_panels(p, sums, begin, end); });
}

ProductShape shape_of_products(const CoreProblem& p, int64_t groups, int threads) {
  ProductShape shape = core_product_shape(p.m, p.n, p.taps, p.depth);
  shape.groups = groups;
  if (threads > 2) shape.k_blocks = core_k_blocks(p);
  return shape;
}

int64_t product_sums_bytes(const CoreProblem& like, int64_t groups, int threads) {
  if (like.m == 0 || like.n == 0 || groups == 0) return 0;
  CoreProblem p = like;
  static constexpr float any = 0;
  p.epilogue.more_residuals[0].data = &any;  // no dot products, as it may be: these cut K in one block
  const ProductShape shape = shape_of_products(p, groups, threads);
  for (int t = threads; t > 1; --t)
    if (ProductShares(shape, t).k_blocks() > 1)
      return shape.k_blocks * groups * p.m * p.n * static_cast<int64_t>(sizeof(float));
  return 0;
}

void run_product(const CoreProblem& problem, ThreadPool& pool, char* scratch, float* sums) {
  run_products(
      shape_of_products(problem, 1, pool.size()), [&](int64_t, const auto& use) { use(problem); }, pool, scratch, sums);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
