// The reference evaluation of non_zero and unique.
#include <algorithm>
#include <numeric>

#include "ir/ops/select.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"
#include "reference/elements.h"

namespace camshaft::ops {

std::vector<Tensor> NonZero::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  std::vector<int64_t> found;
  if (x.dtype() == DType::string) {
    for (int64_t i = 0; i < x.size(); ++i)
      if (!x.as<std::string>()[i].empty()) found.push_back(i);
  } else {
    with_wide_type(x.dtype(), [&]<class T>(const T&) {
      constexpr int64_t chunk = 256;
      T values[chunk];
      for (int64_t done = 0; done < x.size(); done += chunk) {
        const int64_t n = std::min(chunk, x.size() - done);
        load_elements(x.dtype(), x.data(), done, 1, n, values);
        for (int64_t i = 0; i < n; ++i)
          if (values[i] != T{0}) found.push_back(done + i);
      }
    });
  }
  const auto count = static_cast<int64_t>(found.size());
  Tensor out(DType::i64, {x.rank(), count});
  auto* to = out.as_mutable<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = found[static_cast<size_t>(i)];
    for (size_t axis = x.dims().size(); axis-- > 0;) {
      to[static_cast<int64_t>(axis) * count + i] = rest % x.dims()[axis];
      rest /= x.dims()[axis];
    }
  }
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

// `slices` holds count × length elements.
template <class T>
Groups group_slices(const std::vector<T>& slices, int64_t count, int64_t length, bool sorted) {
  const auto three_way = [&](int64_t a, int64_t b) {
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
