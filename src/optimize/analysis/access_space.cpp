#include "optimize/analysis/access_space.h"

#include <algorithm>

#include "base/error.h"

namespace camshaft {

namespace {

const Dim zero = 0, one = 1;

// What an expression is where its symbols are 0.
std::optional<int64_t> constant_part(const Dim& d) {
  std::vector<std::string> symbols;
  d.collect_symbols(symbols);
  SymbolBindings bindings;
  for (std::string& s : symbols) bindings.emplace(std::move(s), 0);
  try {
    return d.evaluate(bindings);
  } catch (const Error&) {  // divides by one of them
    return std::nullopt;
  }
}

// Where an offset leads along dim `d`. Of whole steps along it, only what cannot go beyond the inner dims may be left:
// a tensor without elements is never read, so sizes that are not known are 1 at least.
Dim index_along(const Dim& offset, size_t d, const Shape& shape, const Shape& strides) {
  Dim least = one;
  for (size_t k = d + 1; k < shape.size(); ++k)
    if (shape[k].is_constant()) least = least * shape[k];
  const auto left = constant_part(offset);
  if (left && *left >= 0 && *left < least.value()) {
    const Dim steps = offset - Dim(*left);
    if (steps == zero) return zero;
    if (const auto index = divide(steps, strides[d])) return *index;
  }
  return floor_div(offset, strides[d]);
}

}  // namespace

std::optional<Dim> divide(const Dim& a, const Dim& b) {
  if (a == b) return one;
  if (b == one) return a;
  if (b == zero) return std::nullopt;
  try {
    Dim quotient = floor_div(a, b);
    if (quotient * b == a) return quotient;
  } catch (const Error&) {  // beyond 64 bits
  }
  return std::nullopt;
}

bool provably_at_most(const Dim& a, const Dim& b) {
  if (a == b) return true;
  try {
    const auto low = (b - a).lower_bound();
    return low && *low >= 0;
  } catch (const Error&) {
    return false;
  }
}

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size(), one);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

size_t AccessSpace::add_axis(Dim size, int role) {
  sizes_.push_back(std::move(size));
  roles_.push_back(role);
  for (Access& a : accesses_) a.strides.push_back(zero);
  return sizes_.size() - 1;
}

size_t AccessSpace::add_access(std::vector<Dim> strides) {
  strides.resize(sizes_.size(), zero);
  accesses_.push_back({zero, std::move(strides)});
  return accesses_.size() - 1;
}

size_t AccessSpace::copy_access(size_t access) {
  accesses_.push_back(Access(accesses_[access]));
  return accesses_.size() - 1;
}

void AccessSpace::split(size_t axis, const Dim& minor, const Dim& major) {
  const auto at = static_cast<int64_t>(axis);
  std::vector<Dim> outer;  // first: a product beyond 64 bits throws, and must leave all as it was
  for (const Access& a : accesses_) outer.push_back(a.strides[axis] * minor);
  sizes_[axis] = minor;
  sizes_.insert(sizes_.begin() + at, major);
  roles_.insert(roles_.begin() + at, roles_[axis]);
  for (size_t i = 0; i < accesses_.size(); ++i)
    accesses_[i].strides.insert(accesses_[i].strides.begin() + at, std::move(outer[i]));
}

void AccessSpace::erase_axis(size_t axis) {
  const auto at = static_cast<int64_t>(axis);
  sizes_.erase(sizes_.begin() + at);
  roles_.erase(roles_.begin() + at);
  for (Access& a : accesses_) a.strides.erase(a.strides.begin() + at);
}

// The outermost dim whose stride divides the axis's. An axis that goes on beyond that dim is split there: its inner
// part keeps its place in the list, the outer one is put before it.
std::optional<AccessSpace::Place> AccessSpace::place(size_t access, size_t axis, const Shape& shape,
                                                     const Shape& strides) {
  const Dim& stride = accesses_[access].strides[axis];
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == one) continue;
    const auto coefficient = divide(stride, strides[d]);
    if (!coefficient) continue;
    const auto inside = divide(shape[d], *coefficient);
    if (inside && !(*inside == one) && !provably_at_most(sizes_[axis], *inside)) {
      if (const auto rest = divide(sizes_[axis], *inside)) split(axis, *inside, *rest);
    }
    return Place{static_cast<int>(d), *coefficient};
  }
  return std::nullopt;
}

// Within each dim the axes together must stay inside it, or one would carry into the next.
std::optional<AccessSpace::Placement> AccessSpace::placement(size_t access, const Shape& shape) {
  if (std::any_of(shape.begin(), shape.end(), [](const Dim& d) { return d == zero; })) return std::nullopt;
  const Shape strides = dense_strides(shape);
  Placement result{std::vector<Place>(sizes_.size()), {}, {}};
  for (size_t axis = sizes_.size(); axis-- > 0;) {
    const size_t before = sizes_.size();
    if (sizes_[axis] == one || accesses_[access].strides[axis] == zero) continue;
    const auto found = place(access, axis, shape, strides);
    if (!found) return std::nullopt;
    if (sizes_.size() > before) {
      result.axes.insert(result.axes.begin() + static_cast<int64_t>(axis), Place());
      ++axis;  // the inner part; the outer one is next
    }
    result.axes[axis] = *found;
  }
  Dim rest = accesses_[access].offset;
  for (size_t d = 0; d < shape.size(); ++d) {
    result.first.push_back(index_along(rest, d, shape, strides));
    rest = rest - result.first[d] * strides[d];
    Dim last = result.first[d];
    for (size_t axis = 0; axis < sizes_.size(); ++axis)
      if (result.axes[axis].dim == static_cast<int>(d))
        last = last + result.axes[axis].coefficient * (sizes_[axis] - one);
    if (!provably_at_most(last + one, shape[d])) return std::nullopt;
    result.last.push_back(std::move(last));
  }
  return result;
}

bool AccessSpace::remap(size_t access, const Shape& from, const std::vector<Target>& targets) {
  try {
    const auto found = placement(access, from);
    if (!found) return false;
    Access moved{zero, std::vector<Dim>(sizes_.size(), zero)};
    for (size_t d = 0; d < from.size(); ++d)
      moved.offset = moved.offset + targets[d].offset + found->first[d] * targets[d].stride;
    for (size_t axis = 0; axis < sizes_.size(); ++axis) {
      const Place& p = found->axes[axis];
      if (p.dim >= 0) moved.strides[axis] = p.coefficient * targets[static_cast<size_t>(p.dim)].stride;
    }
    accesses_[access] = std::move(moved);
    return true;
  } catch (const Error&) {  // sizes beyond 64 bits
    return false;
  }
}

std::optional<AccessSpace::Placement> AccessSpace::placed(size_t access, const Shape& shape) {
  try {
    return placement(access, shape);
  } catch (const Error&) {  // sizes beyond 64 bits
    return std::nullopt;
  }
}

std::optional<std::vector<int>> AccessSpace::dims_of_axes(size_t access, const Shape& shape) {
  const auto found = placed(access, shape);
  if (!found) return std::nullopt;
  std::vector<int> dims;
  for (const Place& p : found->axes) dims.push_back(p.dim);
  return dims;
}

std::optional<std::pair<Dim, Dim>> AccessSpace::span(size_t access, const Shape& shape, size_t dim) {
  const auto found = placed(access, shape);
  if (!found) return std::nullopt;
  return std::pair(found->first[dim], found->last[dim]);
}

void AccessSpace::simplify() {
  for (size_t axis = sizes_.size(); axis-- > 0;)
    if (sizes_[axis] == one) erase_axis(axis);
  for (size_t axis = sizes_.size(); axis-- > 1;) {
    if (roles_[axis] != roles_[axis - 1]) continue;
    if (!std::all_of(accesses_.begin(), accesses_.end(),
                     [&](const Access& a) { return a.strides[axis - 1] == a.strides[axis] * sizes_[axis]; }))
      continue;
    sizes_[axis] = sizes_[axis] * sizes_[axis - 1];
    erase_axis(axis - 1);
  }
}

}  // namespace camshaft
