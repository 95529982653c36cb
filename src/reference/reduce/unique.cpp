// The reference evaluation of non_zero and unique.
#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string_view>

#include "base/hash.h"
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
  // Short rows are gone through as one, and where an element lies follows from its number: row by row 52,668 elements
  // in rows of 1 took 470 us.
  constexpr int64_t short_row = 128, most_numbered = 1 << 24;
  constexpr size_t most_axes = 16;
  const bool is_flat =
      dims.size() > 1 && dims.size() <= most_axes && dims.back() < short_row && x.size() <= most_numbered;
  const int64_t row = is_flat ? x.size() : dims.empty() ? 1 : dims.back(), rows = x.size() == 0 ? 0 : x.size() / row;
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
  if (is_flat) {
    double by[most_axes];
    for (size_t axis = 0; axis < dims.size(); ++axis) by[axis] = 1 / static_cast<double>(dims[axis]);
    each_chunk([&](int64_t, int64_t first, int64_t count) {
      for (int64_t i = 0; i < count; ++i) list[i] += static_cast<int32_t>(first);
      for (size_t axis = dims.size(); axis-- > 0;) {
        int64_t* place = to + static_cast<int64_t>(axis) * total + done;
        const auto size = static_cast<int32_t>(dims[axis]);
        if (size == 1) {
          std::fill_n(place, count, 0);
          continue;
        }
        for (int64_t i = 0; i < count; ++i) {
          // The quotient of so small numbers is never as close to a whole one as its rounding.
          const auto above = static_cast<int32_t>((list[i] + 0.5) * by[axis]);
          place[i] = list[i] - above * size;
          list[i] = above;
        }
      }
      done += count;
    });
    return {out};
  }
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

// Numbers that are equal have the same bits so: the zeros become one, and so do all NaN.
template <class T>
T canonical(T v) {
  if constexpr (std::is_floating_point_v<T>) return v == v ? v + T{0} : std::numeric_limits<T>::quiet_NaN();
  return v;
}

// No file knows which numbers begin at one place of a table. Drawn once: that took longer than grouping 10 rows of 100.
uint64_t process_seed() {
  static const uint64_t seed = std::random_device()();
  return seed;
}

// count × length elements.
template <class T>
class Slices {
 public:
  Slices(const T* values, int64_t count, int64_t length) : values_(values), count_(count), length_(length) {}

  int64_t count() const { return count_; }
  int64_t length() const { return length_; }
  const T* at(int64_t s) const { return values_ + s * length_; }

  // Of its first `most` elements.
  uint64_t hash(int64_t s, int64_t most) const {
    const int64_t count = std::min(most, length_);
    if constexpr (std::is_arithmetic_v<T>) {
      if (length_ != 1) return hash_of_numbers(at(s), count);
      uint64_t bits = 0;
      const T value = canonical(*at(s));
      std::memcpy(&bits, &value, sizeof(T));
      return (bits ^ seed_) * 0x9e3779b97f4a7c15U;  // an odd factor: no two numbers have one hash
    } else {
      Hasher hasher;
      for (int64_t i = 0; i < count; ++i) {
        const uint64_t size = at(s)[i].size();
        hasher.add(std::as_bytes(std::span(&size, 1)));
        hasher.add(at(s)[i]);
      }
      return hasher.hash64();
    }
  }

  // Of two slices with one hash, which those of one number have alone.
  bool same(int64_t a, int64_t b) const {
    if constexpr (std::is_arithmetic_v<T>) {
      if (length_ <= 1 || std::memcmp(at(a), at(b), static_cast<size_t>(length_) * sizeof(T)) == 0) return true;
      return std::is_floating_point_v<T> &&
             std::equal(at(a), at(a) + length_, at(b), [](T x, T y) { return compare(x, y) == 0; });
    }
    return std::equal(at(a), at(a) + length_, at(b));
  }

  bool less(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < length_; ++i)
      if (const int c = compare(at(a)[i], at(b)[i])) return c < 0;
    return false;
  }

 private:
  // Floats are made canonical a block at a time: all of 10^5 doubles first took as long again as hashing them.
  static uint64_t hash_of_numbers(const T* slice, int64_t count) {
    if constexpr (!std::is_floating_point_v<T>) {
      return hash64(std::as_bytes(std::span(slice, static_cast<size_t>(count))));
    } else {
      constexpr int64_t most = 512;
      T block[most];
      const auto canonical_block = [&](int64_t first, int64_t n) {
        for (int64_t i = 0; i < n; ++i) block[i] = canonical(slice[first + i]);
        return std::as_bytes(std::span(block, static_cast<size_t>(n)));
      };
      if (count <= most) return hash64(canonical_block(0, count));
      Hasher hasher;
      for (int64_t i = 0; i < count; i += most) hasher.add(canonical_block(i, std::min(most, count - i)));
      return hasher.hash64();
    }
  }

  const T* values_;
  int64_t count_, length_;
  uint64_t seed_ = process_seed();
};

// By a table of the slices found so far, in the order in which they occur: 10^5 numbers of which 100 differ took 10 ms
// when all were sorted. Nothing where more than a few slices that differ have one hash of their first `most` elements.
template <class T>
std::optional<Groups> group_by_hash(const Slices<T>& slices, int64_t most) {
  const bool is_whole = most >= slices.length();
  int64_t mistaken_left = 16;
  Groups groups;
  groups.inverse.reserve(static_cast<size_t>(slices.count()));
  std::vector<uint64_t> hashes;  // of each group
  int bits = 8;
  PacedCancellation cancellation;
  std::vector<int64_t> table(size_t{1} << bits, -1);  // groups, at the place of their hash or behind it
  const auto place_of = [&](uint64_t hash, auto&& is_it) {
    for (size_t at = hash >> (64 - bits);; at = (at + 1) & (table.size() - 1)) {
      cancellation.did(1);
      if (table[at] < 0 || is_it(static_cast<size_t>(table[at]))) return at;
    }
  };
  for (int64_t s = 0; s < slices.count(); ++s) {
    cancellation.did(1 + slices.length());
    const uint64_t hash = slices.hash(s, most);
    const auto is_it = [&](size_t g) {
      if (hashes[g] != hash) return false;
      const bool is_same = slices.same(groups.first[g], s);
      if (!is_same && !is_whole) --mistaken_left;
      return is_same;
    };
    size_t at = place_of(hash, is_it);
    if (mistaken_left < 0) return std::nullopt;
    if (table[at] < 0) {
      if (2 * groups.first.size() >= table.size()) {
        bits += 2;
        table.assign(size_t{1} << bits, -1);
        for (size_t g = 0; g < hashes.size(); ++g)
          table[place_of(hashes[g], [](size_t) { return false; })] = static_cast<int64_t>(g);
        at = place_of(hash, [](size_t) { return false; });
      }
      table[at] = static_cast<int64_t>(groups.first.size());
      groups.first.push_back(s);
      groups.counts.push_back(0);
      hashes.push_back(hash);
    }
    ++groups.counts[static_cast<size_t>(table[at])];
    groups.inverse.push_back(table[at]);
  }
  return groups;
}

// Slices mostly differ in their first elements, and those that do not are compared: 100 slices of 1000 doubles took
// 87 us to be hashed.
template <class T>
Groups group_by_occurrence(const Slices<T>& slices) {
  constexpr int64_t first_elements = 64;
  if (slices.length() > first_elements)
    if (auto groups = group_by_hash(slices, first_elements)) return std::move(*groups);
  return *group_by_hash(slices, slices.length());
}

// The groups by their slices, ascending.
template <class T>
Groups in_order(Groups groups, const Slices<T>& slices) {
  // Most slices differ in their first elements, which lie beside each other here.
  using First = std::conditional_t<std::is_arithmetic_v<T>, T, std::string_view>;
  std::vector<std::pair<First, int64_t>> order;
  order.reserve(groups.first.size());
  for (size_t g = 0; g < groups.first.size(); ++g)
    order.emplace_back(slices.length() == 0 ? First{} : First(*slices.at(groups.first[g])), static_cast<int64_t>(g));
  PacedCancellation cancellation;
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    cancellation.did(1);
    if (const int c = compare(a.first, b.first)) return c < 0;
    return slices.less(groups.first[static_cast<size_t>(a.second)], groups.first[static_cast<size_t>(b.second)]);
  });
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

template <class T>
Groups group_slices(const T* values, int64_t count, int64_t length, bool sorted) {
  const Slices<T> slices(values, count, length);
  Groups groups = group_by_occurrence(slices);
  return sorted ? in_order(std::move(groups), slices) : groups;
}

// Calls f(T{}) with the type in which the elements are stored, or else with a wider one of numbers.
template <class F>
Groups with_number_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::i8:
      return f(int8_t{});
    case DType::u8:
      return f(uint8_t{});
    case DType::i16:
      return f(int16_t{});
    case DType::u16:
      return f(uint16_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::u32:
      return f(uint32_t{});
    default:
      return with_wide_type(dtype, f);
  }
}

// Of T, which is as wide as the elements or what with_wide_type() gives.
template <class T>
void load_numbers(const Tensor& x, int64_t first, int64_t count, T* to) {
  if constexpr (sizeof(T) == 8) {
    load_elements(x.dtype(), x.data(), first, 1, count, to);
  } else {
    copy_elements(x.as<T>() + first, to, count);
  }
}

// x[outer, count, inner] as values[count, outer, inner]. Some rows of some slices at a time: with one element a row, of
// 316 × 316, each load of a single element took as long as hashing 30.
template <class T>
void load_slices(const Tensor& x, int64_t outer, int64_t count, int64_t inner, T* values) {
  if (outer == 1 || inner == 0) return load_numbers(x, 0, outer * count * inner, values);
  constexpr int64_t most_rows = 8, row_elements = 512;
  const int64_t most_slices = std::max<int64_t>(1, row_elements / inner);
  std::vector<T> rows(static_cast<size_t>(most_rows * std::min(most_slices, count) * inner));
  for (int64_t s = 0; s < count; s += most_slices)
    for (int64_t o = 0; o < outer; o += most_rows) {
      cancellation_point();
      const int64_t some_slices = std::min(most_slices, count - s), some_rows = std::min(most_rows, outer - o);
      for (int64_t r = 0; r < some_rows; ++r)
        load_numbers(x, ((o + r) * count + s) * inner, some_slices * inner, rows.data() + r * some_slices * inner);
      for (int64_t i = 0; i < some_slices; ++i)
        for (int64_t r = 0; r < some_rows; ++r)
          std::copy_n(rows.data() + (r * some_slices + i) * inner, inner, values + ((s + i) * outer + o + r) * inner);
    }
}

// The groups of x[outer, count, inner] along the middle axis.
Groups group_numbers(const Tensor& x, int64_t outer, int64_t count, int64_t inner, bool sorted) {
  return with_number_type(x.dtype(), [&]<class T>(const T&) {
    const bool is_stored_so = bit_width(x.dtype()) == 8 * sizeof(T);
    if (is_stored_so && outer == 1) return group_slices(x.as<T>(), count, inner, sorted);
    std::vector<T> values(static_cast<size_t>(count * outer * inner));
    load_slices(x, outer, count, inner, values.data());
    return group_slices(values.data(), count, outer * inner, sorted);
  });
}

Groups group_strings(const Tensor& x, int64_t outer, int64_t count, int64_t inner, bool sorted) {
  const auto* strings = x.as<std::string>();
  if (outer == 1) return group_slices(strings, count, inner, sorted);
  std::vector<std::string> values(static_cast<size_t>(count * outer * inner));
  for (int64_t s = 0; s < count; ++s)
    for (int64_t o = 0; o < outer; ++o)
      copy_elements(strings + (o * count + s) * inner, values.data() + (s * outer + o) * inner, inner);
  return group_slices(values.data(), count, outer * inner, sorted);
}

}  // namespace

std::vector<Tensor> Unique::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const bool flat = axis == -1;
  const auto at = flat ? 0 : static_cast<size_t>(axis);
  const int64_t count = flat ? x.size() : x.dims().at(at);
  const int64_t outer = flat ? 1 : product(x.dims(), 0, at);
  const int64_t inner = flat ? 1 : product(x.dims(), at + 1, x.dims().size());
  check_fits_memory(DType::i64, {count});  // of the slices, which may be empty
  const Groups groups = x.dtype() == DType::string ? group_strings(x, outer, count, inner, sorted)
                                                   : group_numbers(x, outer, count, inner, sorted);
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
