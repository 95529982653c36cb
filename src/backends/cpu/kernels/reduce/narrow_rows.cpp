#include "backends/cpu/kernels/reduce/narrow_rows.h"

#include <algorithm>

#include "backends/cpu/kernels/pointwise/tile_kernels.h"
#include "base/pieces.h"

namespace camshaft::cpu {

namespace {

constexpr int64_t block = 4 * 1024;            // elements: 16 KB of f32
constexpr int64_t least_elements = 16 * 1024;  // below which a thread of its own does not pay

// normalise(x, rows, y): so many rows, from f32 to f32.
template <class Normalise>
void by_blocks(const NarrowRows& rows, int64_t count, int64_t length, ThreadPool& pool, const void* x, void* y,
               const Normalise& normalise) {
  if (count == 0 || length == 0) return;
  const TileKernel widen = find_conversion(rows.from, DType::f32), narrow = find_conversion(DType::f32, rows.to);
  const int64_t in_bytes = length * bit_width(rows.from) / 8, out_bytes = length * bit_width(rows.to) / 8;
  const int64_t at_once = std::max<int64_t>(1, block / length);
  const auto run = [&](int64_t begin, int64_t end) {
    alignas(64) float numbers[NarrowRows::longest];
    for (int64_t r = begin; r < end; r += at_once) {
      const int64_t n = std::min(at_once, end - r);
      const void* source[1] = {static_cast<const char*>(x) + r * in_bytes};
      char* target = static_cast<char*>(y) + r * out_bytes;
      const float* wide = static_cast<const float*>(source[0]);
      if (rows.from != DType::f32) {
        widen(source, numbers, n * length, 0);
        wide = numbers;
      }
      if (rows.to == DType::f32) {
        normalise(wide, n, reinterpret_cast<float*>(target));
        continue;
      }
      normalise(wide, n, numbers);
      const void* results[1] = {numbers};
      narrow(results, target, n * length, 0);
    }
  };
  for_pieces(pool, count, (least_elements + length - 1) / length, run);
}

}  // namespace

void NarrowRows::run(const LayerNorm& norm, ThreadPool& pool, const void* x, const float* scale, const float* bias,
                     void* y) const {
  by_blocks(*this, norm.rows, norm.length, pool, x, y, [&](const float* from, int64_t rows, float* to) {
    LayerNorm{rows, norm.length, norm.epsilon}.run_here(from, scale, bias, to);
  });
}

void NarrowRows::run(const RmsNorm& norm, ThreadPool& pool, const void* x, const float* scale, void* y) const {
  by_blocks(*this, norm.rows, norm.length, pool, x, y, [&](const float* from, int64_t rows, float* to) {
    RmsNorm{rows, norm.length, norm.epsilon, norm.least}.run_here(from, scale, to);
  });
}

}  // namespace camshaft::cpu
