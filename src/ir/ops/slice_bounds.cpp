#include "ir/ops/slice_bounds.h"

#include <limits>

#include "base/error.h"
#include "ir/dim_too_large.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

constexpr int64_t far = std::numeric_limits<int32_t>::max();  // exporters write INT32_MAX or INT64_MAX for "the end"

bool is_the_end(const Dim& bound) {
  return bound == Dim(far) || bound == Dim(std::numeric_limits<int64_t>::max());
}

bool not_negative(const Dim& d) {
  const auto low = d.lower_bound();
  return low && *low >= 0;
}
bool negative(const Dim& d) {
  const auto high = d.upper_bound();
  return high && *high < 0;
}

// A bound counted from the front, clamped to [low, high]; nullopt when its sign is not known.
std::optional<Dim> clamped(const Dim& bound, const Dim& low, const Dim& high, const Dim& size) {
  if (const auto c = bound.as_constant()) {
    if (*c >= far) return high;
    if (*c <= -far) return low;
  }
  if (not_negative(bound)) return min(bound, high);
  if (negative(bound)) return max(bound + size, low);
  // size - 1 is negative only when the axis is empty, and then both readings clamp to nothing.
  if (bound == size - Dim(1)) return max(bound, low);
  return std::nullopt;
}

std::optional<SliceRange> range_of(const Dim& start, const Dim& end, int64_t step, const Dim& size) {
  if (size == Dim(0)) return SliceRange{0, 0};
  if (step > 0) {
    // A start beyond the end needs no clamping: the count is 0 all the same, and x[1:] of n stays max(n - 1, 0).
    const auto constant = start.as_constant();
    const bool near = not_negative(start) && !(constant && *constant >= far);
    const auto first = near ? std::optional<Dim>(start) : clamped(start, 0, size, size);
    const auto last = clamped(end, 0, size, size);
    if (!first || !last) return std::nullopt;
    return SliceRange{*first, max(step == 1 ? *last - *first : ceil_div(*last - *first, step), 0)};
  }
  if (step == std::numeric_limits<int64_t>::min()) ++step;  // every step this large takes one element
  // Backwards, start is clamped to [0, size - 1] and end to [-1, size - 1].
  const Dim back = size - Dim(1);
  // By the letter, an end of INT_MAX clamps to size - 1 and nothing is ever taken. Models are written for ONNX
  // Runtime's reading: "the end" is where a slice in this direction stops.
  const auto last = is_the_end(end) ? std::optional<Dim>(-1) : clamped(end, -1, back, size);
  const bool from_back = start == Dim(-1);
  const auto first = from_back ? std::optional<Dim>(back) : clamped(start, 0, back, size);
  if (!first || !last) return std::nullopt;
  const Dim count = max(ceil_div(*first - *last, -step), 0);
  // An empty axis clamps a start to 0 though there is no element 0.
  return SliceRange{*first, *first == back ? count : min(count, size)};
}

}  // namespace

std::optional<SliceRange> slice_range(const Dim& start, const Dim& end, int64_t step, const Dim& size) {
  if (step == 0) throw Error(ErrorCode::invalid_argument, "the step of a slice is 0");
  try {
    return range_of(start, end, step, size);
  } catch (const DimTooLarge&) {
    // Dozens of slices of slices, each with its own minima and maxima: running tells.
    return std::nullopt;
  }
}

void check_inside(const AxisRange& r, int64_t size, int64_t axis) {
  int64_t last = 0;
  const bool overflow = __builtin_mul_overflow(std::max<int64_t>(r.count - 1, 0), r.step, &last) ||
                        __builtin_add_overflow(last, r.start, &last);
  if (r.count > 0 && (overflow || r.start < 0 || r.start >= size || last < 0 || last >= size))
    fail_rule("the slice of axis {} takes {} elements from {} in steps of {}, the axis has {}", axis, r.count, r.start,
              r.step, size);
}

}  // namespace camshaft::ops
