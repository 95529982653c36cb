// The reference evaluation of dims, shape_of and range.
#include "ir/ops/generate.h"

#include <algorithm>

#include "base/pieces.h"
#include "reference/element_io.h"
#include "reference/elements.h"

namespace camshaft::ops {

std::vector<Tensor> DimsTensor::evaluate(const EvalContext& context) const {
  const Dims values = context.evaluate(elements);
  Tensor out(dtype, scalar ? Dims{} : Dims{static_cast<int64_t>(values.size())});
  store_elements(dtype, out.mutable_data(), 0, 1, out.size(), values.data());
  return {out};
}

std::vector<Tensor> ShapeOf::evaluate(const EvalContext& context) const {
  const Dims& dims = context.input(0).dims();
  return {Tensor::from_ints(Dims(dims.begin() + start, dims.begin() + end))};
}

namespace {

// out[i] = start + i · delta for i of [begin, end), computed as T; of integers modulo 2^64: the sum is in range, though
// the product may not be. Element by element through the wide types 10^7 floats took 60 ms.
template <class T, class Element>
[[gnu::always_inline]] inline void fill(T start, T delta, int64_t begin, int64_t end, Element* out) {
  constexpr int64_t block = 1024;  // whose indices are narrow: they become doubles in vectors
  for (int64_t first = begin; first < end; first += block) {
    const auto n = static_cast<int32_t>(std::min(block, end - first));
    if constexpr (std::is_floating_point_v<T>) {
      const auto base = static_cast<T>(first);
      for (int32_t i = 0; i < n; ++i) out[first + i] = static_cast<Element>(start + (base + static_cast<T>(i)) * delta);
    } else {
      // Steps in the elements' own width, which wrap as the wide ones do: with multiplications of 64 bits 10^5 of i32
      // took twice as long.
      using Step = std::make_unsigned_t<Element>;
      const auto each = static_cast<Step>(delta);
      auto value =
          static_cast<Step>(static_cast<uint64_t>(start) + static_cast<uint64_t>(first) * static_cast<uint64_t>(delta));
      for (int32_t i = 0; i < n; ++i, value = static_cast<Step>(value + each))
        out[first + i] = static_cast<Element>(value);
    }
  }
}

template <class T, class Element>
void fill_baseline(T start, T delta, int64_t begin, int64_t end, Element* out) {
  fill(start, delta, begin, end, out);
}
#if defined(__x86_64__)
// 10^6 of i32 took 79 us by vectors of 16 bytes.
template <class T, class Element>
[[gnu::target("avx2")]] void fill_avx2(T start, T delta, int64_t begin, int64_t end, Element* out) {
  fill(start, delta, begin, end, out);
}
#endif

template <class T, class Element>
void fill_range(T start, T delta, int64_t begin, int64_t end, Element* out) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return fill_avx2(start, delta, begin, end, out);
#endif
  fill_baseline(start, delta, begin, end, out);
}

}  // namespace

std::vector<Tensor> Range::evaluate(const EvalContext& context) const {
  const int64_t count = range_count(context.input(0), context.input(1), context.input(2));
  const DType dtype = context.input(0).dtype();
  Tensor out = Tensor::uncleared(dtype, {count});
  std::byte* to = out.mutable_data();
  with_wide_type(dtype, [&]<class T>(const T&) {
    T start, delta;
    load_elements(dtype, context.input(0).data(), 0, 1, 1, &start);
    load_elements(dtype, context.input(2).data(), 0, 1, 1, &delta);
    for_pieces(context.pool, count, 1 << 14, [&](int64_t begin, int64_t end) {
      const auto fill_as = [&]<class Element>(const Element&) {
        fill_range(start, delta, begin, end, reinterpret_cast<Element*>(to));
      };
      if constexpr (std::is_floating_point_v<T>) {
        if (dtype == DType::f64) return fill_as(double{});
        if (dtype == DType::f32) return fill_as(float{});
        constexpr int64_t chunk = 256;
        T values[chunk];
        for (int64_t done = begin; done < end; done += chunk) {
          const int64_t n = std::min(chunk, end - done);
          for (int64_t i = 0; i < n; ++i) values[i] = start + static_cast<T>(done + i) * delta;
          store_elements(dtype, to, done, 1, n, values);
        }
      } else {
        visit_storage(dtype, [&]<class Element>(const Element&) {
          if constexpr (std::is_integral_v<Element>) fill_as(Element{});
        });
      }
    });
  });
  return {out};
}

}  // namespace camshaft::ops
