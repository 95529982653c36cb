// The reference evaluation of non_zero and unique.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/work_scope.h"
#include "ir/ops/select.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"
#include "reference/elements.h"

namespace camshaft::ops {

namespace {

// list[0, …) = the numbers of the elements of x[0, n) for which is_set(element); returns how many. Without branches:
// half of the elements being set, a branch for each took four times as long.
template <class T, class IsSet>
int64_t list_set(const T* x, int64_t n, IsSet is_set, int32_t* list) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    list[count] = static_cast<int32_t>(i);
    count += is_set(x[i]) ? 1 : 0;
  }
  return count;
}

// visit(elements, is_set) with the elements as they are stored.
template <class Visit>
void visit_set(const Tensor& x, Visit&& visit) {
  if (x.dtype() == DType::f32) return visit(x.as<float>(), [](float v) { return v != 0; });
  if (x.dtype() == DType::f64) return visit(x.as<double>(), [](double v) { return v != 0; });
  if (x.dtype() == DType::f16 || x.dtype() == DType::bf16)
    return visit(x.as<uint16_t>(), [](uint16_t v) { return (v & 0x7fff) != 0; });
  if (x.dtype() == DType::string) return visit(x.as<std::string>(), [](const std::string& v) { return !v.empty(); });
  visit_storage(x.dtype(), [&]<class T>(const T&) {
    if constexpr (std::is_integral_v<T>) visit(x.as<T>(), [](T v) { return v != 0; });
  });
}

}  // namespace

std::vector<Tensor> NonZero::evaluate(const EvalContext& context) const {
  Tensor x = context.input(0);
  if (is_floating(x.dtype()) && bit_width(x.dtype()) <= 8) {  // whose zeros are not all bits 0
    Tensor wide(DType::f64, x.dims());
    load_elements(x.dtype(), x.data(), 0, 1, x.size(), wide.as_mutable<double>());
    x = wide;
  } else {
    x = unpack_subbyte(x);
  }
  const Dims& dims = x.dims();
  const int64_t row = dims.empty() ? 1 : dims.back(), rows = x.size() == 0 ? 0 : x.size() / row;
  constexpr int64_t chunk = 1024;
  int32_t list[chunk];
  int64_t total = 0;
  const auto each_chunk = [&](auto&& visit) {
    visit_set(x, [&](const auto* elements, auto is_set) {
      PacedCancellation cancellation;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t first = 0; first < row; first += chunk) {
          const int64_t count = std::min(chunk, row - first);
          cancellation.did(count);
          visit(r, first, list_set(elements + r * row + first, count, is_set, list));
        }
    });
  };
  visit_set(x, [&](const auto* elements, auto is_set) {
    constexpr int64_t at_once = 1 << 18;
    for (int64_t first = 0; first < x.size(); first += at_once) {
      cancellation_point();
      for (int64_t i = first; i < std::min(first + at_once, x.size()); ++i) total += is_set(elements[i]) ? 1 : 0;
    }
  });
  Tensor out = Tensor::uncleared(DType::i64, {x.rank(), total});
  auto* to = out.as_mutable<int64_t>();
  int64_t done = 0;
  each_chunk([&](int64_t r, int64_t first, int64_t count) {
    if (count == 0 || dims.empty()) return;
    int64_t* last = to + static_cast<int64_t>(dims.size() - 1) * total + done;
    for (int64_t i = 0; i < count; ++i) last[i] = first + list[i];
    int64_t rest = r;
    for (size_t axis = dims.size() - 1; axis-- > 0; rest /= dims[axis])
      std::fill_n(to + static_cast<int64_t>(axis) * total + done, count, rest % dims[axis]);
    done += count;
  });
  return {out};
}

namespace {

template <class T>
int compare(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan || b_nan) return static_cast<int>(a_nan) - static_cast<int>(b_nan);
  }
  return a < b ? -1 : b < a ? 1 : 0;
}

struct Groups {
  std::vector<int64_t> first;    // of each unique slice
  std::vector<int64_t> inverse;  // of each slice
  std::vector<int64_t> counts;   // of each unique slice
};

// Single numbers, by a table of those found so far: 10^5 of 100 different ones took 10 ms when all were sorted.
template <class T>
Groups group_numbers(const std::vector<T>& values, bool sorted) {
  Groups groups;
  groups.inverse.reserve(values.size());
  std::vector<int64_t> table(256, -1);  // groups, at the place of their value or behind it
  const auto place_of = [&](const T& value) {
    uint64_t bits = 0;
    if (value == value && value != T{0}) std::memcpy(&bits, &value, sizeof(T));  // the zeros are equal, and all NaN
    if (value != value) bits = 1;
    size_t at = (bits * 0x9e3779b97f4a7c15u) >> 32;
    for (at &= table.size() - 1;; at = (at + 1) & (table.size() - 1))
      if (table[at] < 0 ||
          compare(values[static_cast<size_t>(groups.first[static_cast<size_t>(table[at])])], value) == 0)
        return at;
  };
  PacedCancellation cancellation;
  for (size_t i = 0; i < values.size(); ++i) {
    cancellation.did(1);
    size_t at = place_of(values[i]);
    if (table[at] < 0) {
      if (2 * groups.first.size() >= table.size()) {
        table.assign(4 * table.size(), -1);
        for (size_t g = 0; g < groups.first.size(); ++g)
          table[place_of(values[static_cast<size_t>(groups.first[g])])] = static_cast<int64_t>(g);
        at = place_of(values[i]);
      }
      table[at] = static_cast<int64_t>(groups.first.size());
      groups.first.push_back(static_cast<int64_t>(i));
      groups.counts.push_back(0);
    }
    ++groups.counts[static_cast<size_t>(table[at])];
    groups.inverse.push_back(table[at]);
  }
  if (!sorted) return groups;
  const auto value_of = [&](int64_t g) { return values[static_cast<size_t>(groups.first[static_cast<size_t>(g)])]; };
  std::vector<std::pair<T, int64_t>> order;
  for (size_t g = 0; g < groups.first.size(); ++g) order.emplace_back(value_of(static_cast<int64_t>(g)), g);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
  Groups out;
  std::vector<int64_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto g = static_cast<size_t>(order[i].second);
    out.first.push_back(groups.first[g]);
    out.counts.push_back(groups.counts[g]);
    place[g] = static_cast<int64_t>(i);
  }
  for (int64_t& g : groups.inverse) g = place[static_cast<size_t>(g)];
  out.inverse = std::move(groups.inverse);
  return out;
}

// `slices` holds count × length elements.
template <class T>
Groups group_slices(const std::vector<T>& slices, int64_t count, int64_t length, bool sorted) {
  if constexpr (std::is_arithmetic_v<T>) {
    if (length == 1) return group_numbers(slices, sorted);
  }
  PacedCancellation cancellation;
  const auto three_way = [&](int64_t a, int64_t b) {
    cancellation.did(1);
    for (int64_t i = 0; i < length; ++i)
      if (const int c =
              compare(slices[static_cast<size_t>(a * length + i)], slices[static_cast<size_t>(b * length + i)]))
        return c;
    return 0;
  };
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int c = three_way(a, b);
    return c != 0 ? c < 0 : a < b;
  });
  Groups groups;
  groups.inverse.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || three_way(order[i - 1], order[i]) != 0) {
      groups.first.push_back(order[i]);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  if (sorted) return groups;
  std::vector<size_t> by_occurrence(groups.first.size());
  std::iota(by_occurrence.begin(), by_occurrence.end(), size_t{0});
  std::sort(by_occurrence.begin(), by_occurrence.end(),
            [&](size_t a, size_t b) { return groups.first[a] < groups.first[b]; });
  Groups out;
  std::vector<int64_t> place(groups.first.size());
  for (size_t i = 0; i < by_occurrence.size(); ++i) {
    out.first.push_back(groups.first[by_occurrence[i]]);
    out.counts.push_back(groups.counts[by_occurrence[i]]);
    place[by_occurrence[i]] = static_cast<int64_t>(i);
  }
  for (const int64_t g : groups.inverse) out.inverse.push_back(place[static_cast<size_t>(g)]);
  return out;
}

}  // namespace

std::vector<Tensor> Unique::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const bool flat = axis == -1;
  const auto at = flat ? 0 : static_cast<size_t>(axis);
  const int64_t count = flat ? x.size() : x.dims().at(at);
  const int64_t outer = flat ? 1 : product(x.dims(), 0, at);
  const int64_t inner = flat ? 1 : product(x.dims(), at + 1, x.dims().size());
  const int64_t length = outer * inner;
  check_fits_memory(DType::i64, {count});  // of the slices, which may be empty
  const auto group = [&]<class T>(const T&) {
    std::vector<T> slices(static_cast<size_t>(count * length));
    if constexpr (!std::is_same_v<T, std::string>) {
      if (flat) {
        load_elements(x.dtype(), x.data(), 0, 1, count, slices.data());
        return group_slices(slices, count, length, sorted);
      }
    }
    for (int64_t s = 0; s < count && length > 0; ++s)
      for (int64_t o = 0; o < outer; ++o) {
        T* to = slices.data() + s * length + o * inner;
        const int64_t from = (o * count + s) * inner;
        if constexpr (std::is_same_v<T, std::string>) {
          copy_elements(x.as<std::string>() + from, to, inner);
        } else {
          load_elements(x.dtype(), x.data(), from, 1, inner, to);
        }
      }
    return group_slices(slices, count, length, sorted);
  };
  const Groups groups = x.dtype() == DType::string ? group(std::string()) : with_wide_type(x.dtype(), group);
  const auto found = static_cast<int64_t>(groups.first.size());
  const Tensor source = unpack_subbyte(x);
  Dims dims = x.dims();
  if (flat) {
    dims = {found};
  } else {
    dims[at] = found;
  }
  Tensor out(source.dtype(), dims);
  visit_storage(source.dtype(), [&]<class T>(const T&) {
    const T* from = source.as<T>();
    T* to = out.as_mutable<T>();
    for (int64_t o = 0; o < outer && out.size() > 0; ++o)
      for (int64_t i = 0; i < found; ++i)
        copy_elements(from + (o * count + groups.first[static_cast<size_t>(i)]) * inner, to + (o * found + i) * inner,
                      inner);
  });
  return {pack_subbyte(out, x.dtype()), Tensor::from_ints(groups.first), Tensor::from_ints(groups.inverse),
          Tensor::from_ints(groups.counts)};
}

}  // namespace camshaft::ops
