// Reading and writing runs of elements of any numeric dtype as one of three wide types.
//
// The reference computes floats as double, signed integers as int64_t, unsigned integers and bool as uint64_t, and
// rounds or wraps once when it stores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/float_types.h"

namespace camshaft::ops {

/// Which wide type a dtype is computed in.
enum class NumberClass : uint8_t { real, integer, natural };
/// Throws Error(internal) for strings.
NumberClass number_class(DType dtype);

/// out[i] = data[first + i·stride] as T, one of double, int64_t, uint64_t. Offsets count elements; a stride of 0
/// repeats one element. Floats read as integers are truncated and clamped to the range, NaN gives 0.
template <class T>
void load_elements(DType dtype, const std::byte* data, int64_t first, int64_t stride, int64_t count, T* out);

/// data[first + i·stride] = in[i]. Reals narrow with one rounding; reals to integers are truncated and clamped to the
/// target's range (NaN gives 0), but wrap in packed types, as in the standard's test cases; integers to narrower
/// integers wrap; bool is `in[i] != 0`. `saturate` is for the 8-bit
/// floats, `rounding` for f8e8m0. Runs of packed elements that share a byte must not be written by two threads at a
/// time.
template <class T>
void store_elements(DType dtype, std::byte* data, int64_t first, int64_t stride, int64_t count, const T* in,
                    bool saturate = true, PowerRounding rounding = PowerRounding::up);

/// Calls f(T{}) with the wide type of `dtype`.
template <class F>
decltype(auto) with_wide_type(DType dtype, F&& f) {
  switch (number_class(dtype)) {
    case NumberClass::integer:
      return f(int64_t{});
    case NumberClass::natural:
      return f(uint64_t{});
    case NumberClass::real:
      break;
  }
  return f(double{});
}

}  // namespace camshaft::ops
