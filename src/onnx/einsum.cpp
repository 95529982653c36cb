#include "onnx/einsum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/reduce.h"
#include "onnx/generators.h"

namespace camshaft::onnx {

namespace {

// Letters name axes; an ellipsis stands for '0', '1', … counted from its right end.
using Indices = std::string;

struct Term {
  ValueId value;
  Indices indices;
};

bool contains(const Indices& indices, char index) {
  return indices.find(index) != Indices::npos;
}

// `ellipsis_rank` axes for "...".
Indices expand_ellipsis(const Indices& text, size_t ellipsis_rank) {
  const size_t at = text.find("...");
  if (at == Indices::npos) return text;
  Indices digits;
  for (size_t i = ellipsis_rank; i-- > 0;) digits += static_cast<char>('0' + i);
  return text.substr(0, at) + digits + text.substr(at + 3);
}

// Letters, and at most one "...".
void check_indices(ConvertContext& c, Indices text) {
  if (const size_t at = text.find("..."); at != Indices::npos) text.erase(at, 3);
  for (const char index : text)
    if (!std::isalpha(static_cast<unsigned char>(index)))
      c.invalid(fmt::format("the equation has '{}' where a letter belongs", index));
}

Term transposed(ConvertContext& c, Term term, const Indices& to) {
  if (term.indices == to) return term;
  std::vector<int64_t> permutation;
  for (const char index : to) permutation.push_back(static_cast<int64_t>(term.indices.find(index)));
  return {c.add(ops::Transpose{std::move(permutation)}, {term.value}), to};
}

// Sums over the axes whose index is not in `kept`.
Term summed(ConvertContext& c, const Term& term, const Indices& kept) {
  ops::Reduce op{ops::ReduceKind::sum, {}, false};
  Indices rest;
  for (size_t i = 0; i < term.indices.size(); ++i) {
    if (contains(kept, term.indices[i])) {
      rest += term.indices[i];
    } else {
      op.axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (op.axes.empty()) return term;
  return {c.add(std::move(op), {term.value}), rest};
}

// The elements of `first` and `second`, axes of n elements each, whose positions along both are the same: as one axis
// they are every n + 1-th.
ValueId evenly_spaced_diagonal(ConvertContext& c, ValueId value, size_t first, size_t second, int64_t n) {
  Shape shape = c.shape(value);
  std::vector<int64_t> side_by_side;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis != second) side_by_side.push_back(static_cast<int64_t>(axis));
    if (axis == first) side_by_side.push_back(static_cast<int64_t>(second));
  }
  if (second != first + 1) value = c.add(ops::Transpose{std::move(side_by_side)}, {value});
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(second));
  shape[first] = Dim(n) * Dim(n);
  return c.add(ops::Slice{{static_cast<int64_t>(first)}, {Dim(0)}, {Dim(n)}, {n + 1}}, {c.reshape(value, shape)});
}

// Of axes with the same index, those elements stay whose positions along them are the same. Where their number is not
// known all others are zeroed, and one of the axes is summed away.
Term diagonal(ConvertContext& c, Term term) {
  for (size_t first = 0; first < term.indices.size(); ++first) {
    for (size_t second; (second = term.indices.find(term.indices[first], first + 1)) != Indices::npos;) {
      const Shape shape = c.shape(term.value);
      const Dim rows = shape[first], columns = shape[second];
      if (const auto gap = (rows - columns).as_constant(); gap && *gap != 0)
        c.invalid(
            fmt::format("index '{}' names axes of {} and {} elements", term.indices[first], rows.str(), columns.str()));
      const auto known = rows == columns ? rows.as_constant() : std::nullopt;
      if (known && *known > 0) {
        term.value = evenly_spaced_diagonal(c, term.value, first, second, *known);
        term.indices.erase(second, 1);
        continue;
      }
      Shape down(shape.size() - first, Dim(1)), across(shape.size() - second, Dim(1));
      down[0] = rows;
      across[0] = columns;
      const ValueId row = c.reshape(iota(c, rows), down), column = c.reshape(iota(c, columns), across);
      const ValueId same = c.add(ScalarFunction::equal, {row, column});
      const ValueId kept = c.add(ScalarFunction::select, {same, term.value, c.scalar(c.dtype(term.value), 0)});
      term.value = c.add(ops::Reduce{ops::ReduceKind::sum, {static_cast<int64_t>(second)}, false}, {kept});
      term.indices.erase(second, 1);
    }
  }
  return term;
}

Dim size_of(ConvertContext& c, const Term& term, const Indices& indices) {
  Dim size = 1;
  for (const char index : indices) size = size * c.dim(term.value, static_cast<int64_t>(term.indices.find(index)));
  return size;
}

// `term` with the axis of `index` as long as the other term's, which may be 1 beside it. Where that is not known before
// running, a product would take the two for the same.
Term repeated(ConvertContext& c, Term term, const Term& other, char index) {
  Shape shape = c.shape(term.value);
  Dim& size = shape[term.indices.find(index)];
  const Dim both = broadcast(size, c.dim(other.value, static_cast<int64_t>(other.indices.find(index))));
  if (both == size) return term;
  size = both;
  term.value = c.add(ops::Expand{std::move(shape)}, {term.value});
  return term;
}

// The product of two terms with indices that are not in `kept` summed away: [shared, a's own, summed] times [shared,
// summed, b's own].
Term contracted(ConvertContext& c, const Term& left, const Term& right, const Indices& kept) {
  Term a = summed(c, left, kept + right.indices), b = summed(c, right, kept + left.indices);
  Indices shared, own_a, own_b, sum;
  for (const char index : a.indices) {
    if (!contains(b.indices, index)) {
      own_a += index;
    } else {
      (contains(kept, index) ? shared : sum) += index;
    }
  }
  for (const char index : b.indices)
    if (!contains(a.indices, index)) own_b += index;
  for (const char index : sum) {
    const Term before = a;
    a = repeated(c, a, b, index);
    b = repeated(c, b, before, index);
  }
  const Term ta = transposed(c, a, shared + own_a + sum), tb = transposed(c, b, shared + sum + own_b);
  // Shared axes stay apart, so that those of size 1 broadcast.
  Shape shape_a(c.shape(ta.value).begin(), c.shape(ta.value).begin() + static_cast<std::ptrdiff_t>(shared.size()));
  Shape shape_b(c.shape(tb.value).begin(), c.shape(tb.value).begin() + static_cast<std::ptrdiff_t>(shared.size()));
  shape_a.insert(shape_a.end(), {size_of(c, ta, own_a), size_of(c, ta, sum)});
  shape_b.insert(shape_b.end(), {size_of(c, tb, sum), size_of(c, tb, own_b)});
  const ValueId matrix_a = c.reshape(ta.value, shape_a), matrix_b = c.reshape(tb.value, shape_b);
  const ValueId product = c.add(ops::MatMul{}, {matrix_a, matrix_b});
  Shape shape(c.shape(product).begin(), c.shape(product).end() - 2);
  for (const char index : own_a) shape.push_back(size_of(c, ta, Indices(1, index)));
  for (const char index : own_b) shape.push_back(size_of(c, tb, Indices(1, index)));
  return {c.reshape(product, std::move(shape)), shared + own_a + own_b};
}

// Axes of size 1 beside longer ones of the same index: the product repeats them, as a term without the index does.
void drop_repeated_axes(ConvertContext& c, std::vector<Term>& terms) {
  const auto is_one = [&](const Term& term, size_t axis) {
    return c.dim(term.value, static_cast<int64_t>(axis)) == Dim(1);
  };
  const auto has_longer = [&](char index) {
    return std::any_of(terms.begin(), terms.end(), [&](const Term& term) {
      const size_t axis = term.indices.find(index);
      return axis != Indices::npos && !is_one(term, axis);
    });
  };
  for (Term& term : terms) {
    Shape shape;
    Indices kept;
    for (size_t axis = 0; axis < term.indices.size(); ++axis) {
      if (is_one(term, axis) && has_longer(term.indices[axis])) continue;
      shape.push_back(c.dim(term.value, static_cast<int64_t>(axis)));
      kept += term.indices[axis];
    }
    if (kept != term.indices) term = {c.reshape(term.value, std::move(shape)), kept};
  }
}

std::vector<Indices> split_list(const Indices& text) {
  std::vector<Indices> parts(1);
  for (const char ch : text) {
    if (ch == ',') {
      parts.emplace_back();
    } else {
      parts.back() += ch;
    }
  }
  return parts;
}

// Indices that occur once, in alphabetical order, after the ellipsis: the output when the equation does not say.
Indices implicit_output(const std::vector<Indices>& terms) {
  std::map<char, int> counts;
  for (const Indices& term : terms)
    for (const char index : term) ++counts[index];
  Indices ellipsis, letters;
  for (const auto& [index, count] : counts) {
    if (std::isdigit(static_cast<unsigned char>(index))) {
      ellipsis.insert(ellipsis.begin(), index);
    } else if (count == 1) {
      letters += index;
    }
  }
  return ellipsis + letters;
}

}  // namespace

Values einsum(ConvertContext& c) {
  std::string equation = c.string_attribute("equation");
  std::erase_if(equation, [](char ch) { return ch == ' '; });
  const size_t arrow = equation.find("->");
  const auto parts = split_list(equation.substr(0, arrow));
  const Values& inputs = c.all_inputs();
  if (parts.size() != inputs.size())
    c.invalid(fmt::format("the equation has {} operands, the node {} inputs", parts.size(), inputs.size()));
  std::vector<Term> terms;
  std::vector<Indices> all_indices;
  size_t ellipsis_rank = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    check_indices(c, parts[i]);
    const auto rank = static_cast<size_t>(c.rank(inputs[i]));
    const bool ellipsis = parts[i].find("...") != Indices::npos;
    const size_t letters = parts[i].size() - (ellipsis ? 3 : 0);
    if (ellipsis ? letters > rank : letters != rank)
      c.invalid(fmt::format("operand {} of the equation has {} indices, the input {} axes", i, letters, rank));
    if (ellipsis) ellipsis_rank = std::max(ellipsis_rank, rank - letters);
    if (rank - letters > 10) c.unsupported("an ellipsis stands for more than 10 axes");
    terms.push_back({inputs[i], expand_ellipsis(parts[i], rank - letters)});
    all_indices.push_back(terms.back().indices);
    terms.back() = diagonal(c, std::move(terms.back()));
  }
  Indices out;
  if (arrow == std::string::npos) {
    out = implicit_output(all_indices);
  } else {
    const Indices text = equation.substr(arrow + 2);
    check_indices(c, text);
    out = expand_ellipsis(text, ellipsis_rank);
  }
  for (const char index : out) {
    if (std::count(out.begin(), out.end(), index) > 1)
      c.invalid(fmt::format("the equation's output has '{}' more than once", index));
    if (std::none_of(terms.begin(), terms.end(), [&](const Term& t) { return contains(t.indices, index); }))
      c.invalid(fmt::format("the equation's output has '{}', which no operand has", index));
  }
  drop_repeated_axes(c, terms);
  // What the output or a later operand still needs, behind each operand; few indices, however many operands there are.
  std::vector<Indices> needed(terms.size(), out);
  for (size_t i = terms.size() - 1; i-- > 0;) {
    needed[i] = needed[i + 1];
    for (const char index : terms[i + 1].indices)
      if (!contains(needed[i], index)) needed[i] += index;
  }
  Term result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) result = contracted(c, result, terms[i], needed[i]);
  return {transposed(c, summed(c, result, out), out).value};
}

}  // namespace camshaft::onnx
