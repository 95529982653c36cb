#include "builder/sample_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/float_types.h"
#include "base/random.h"
#include "builder/verification.h"
#include "compile/lower.h"
#include "ir/ops/control_flow.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/symbols.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

// The smallest axis that `id` indexes, directly or after operators that do not change its elements.
class IndexLimit {
 public:
  explicit IndexLimit(const SymbolBindings& symbols) : symbols_(symbols) {}

  std::optional<int64_t> of(const Graph& graph, ValueId id) {
    follow(graph, id);
    return limit_;
  }

 private:
  void table(const Graph& graph, const Node& node, int64_t axis) {
    const Dim& rows = graph.shape(node.inputs[0])[static_cast<size_t>(axis)];
    if (!is_bound({rows}, symbols_)) return;
    const int64_t size = rows.evaluate(symbols_);
    limit_ = std::min(limit_.value_or(size), size);
  }

  void follow(const Graph& graph, ValueId id) {
    if (!seen_.insert({&graph, id}).second) return;
    for (const Node& node : graph.nodes) {
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != id) continue;
        if (const auto* gather = node.op.as<ops::Gather>(); gather && i == 1) table(graph, node, gather->axis);
        if (const auto* gather = node.op.as<ops::GatherElements>(); gather && i == 1) table(graph, node, gather->axis);
        if (node.op.as<ops::ScatterND>() && i == 1) {
          const auto depth = graph.shape(id).empty() ? std::nullopt : graph.shape(id).back().as_constant();
          const auto rank = static_cast<int64_t>(graph.shape(node.inputs[0]).size());
          for (int64_t axis = 0; axis < std::min(depth.value_or(rank), rank); ++axis) table(graph, node, axis);
        }
        const bool same_elements =
            i == 0 && (node.op.as<ops::Cast>() || node.op.as<ops::Reshape>() || node.op.as<ops::Transpose>() ||
                       node.op.as<ops::Expand>() || node.op.as<ops::Slice>());
        if (same_elements || node.op.as<ops::Concat>()) follow(graph, node.outputs[0]);
        // A branch does not take the condition; what a loop's body gives begins with one.
        const size_t before_inputs = node.op.as<ops::If>() ? 1 : 0, before_outputs = node.op.as<ops::Loop>() ? 1 : 0;
        for (const Graph& body : node.bodies) {
          if (i < before_inputs || i - before_inputs >= body.inputs.size()) continue;
          follow(body, body.inputs[i - before_inputs]);
          for (size_t o = before_outputs; o < body.outputs.size() && o - before_outputs < node.outputs.size(); ++o)
            if (seen_.count({&body, body.outputs[o]})) follow(graph, node.outputs[o - before_outputs]);
        }
      }
    }
  }

  const SymbolBindings& symbols_;
  std::set<std::pair<const Graph*, ValueId>> seen_;
  std::optional<int64_t> limit_;
};

// Whether all that is made of an integer is sums, products and comparisons of integers: no sizes, axes or lengths, and
// no floats, of which a mask may be one.
bool stays_integer(const Graph& graph, ValueId id, std::set<ValueId>& seen) {
  using F = ScalarFunction;
  if (!seen.insert(id).second) return true;
  for (const Node& node : graph.nodes) {
    if (std::find(node.inputs.begin(), node.inputs.end(), id) == node.inputs.end()) continue;
    if (!node.bodies.empty() || node.outputs.size() != 1 || node.outputs[0] == no_value) return false;
    const DType result = graph.type(node.outputs[0]).dtype;
    const auto* scalar = node.op.as<ops::Pointwise>();
    constexpr F plain[] = {F::neg, F::abs, F::sign, F::add, F::sub, F::mul, F::min, F::max};
    constexpr F comparisons[] = {F::equal, F::less, F::less_or_equal};
    if (scalar && std::find(std::begin(comparisons), std::end(comparisons), scalar->function) != std::end(comparisons))
      continue;
    const bool is_plain = scalar && std::find(std::begin(plain), std::end(plain), scalar->function) != std::end(plain);
    const bool is_moved = node.op.traits().kind == OpKind::move && node.inputs[0] == id &&
                          std::count(node.inputs.begin(), node.inputs.end(), id) == 1;
    if (!(is_plain || is_moved || node.op.as<ops::Cast>()) || !is_integer(result) || bit_width(result) < 32 ||
        !stays_integer(graph, node.outputs[0], seen))
      return false;
  }
  return true;
}

struct Range {
  int64_t least, greatest;
};

// What an integer of an input that indexes nothing may be, beyond 0 and 1.
std::optional<Range> wide_range(const Graph& graph, ValueId id) {
  const DType dtype = graph.type(id).dtype;
  if (dtype == DType::u8) return Range{0, 255};
  if (dtype == DType::i8) return Range{-128, 127};
  if (dtype == DType::u16) return Range{0, 65535};
  if (dtype == DType::i16) return Range{-32768, 32767};
  std::set<ValueId> seen;
  if ((dtype == DType::i32 || dtype == DType::i64) && stays_integer(graph, id, seen)) return Range{-1000, 1000};
  return std::nullopt;
}

int64_t draw(const Range& range, Random& random) {
  constexpr int64_t ends = 16;  // one of so many is the least, and one the greatest
  const int64_t which = random.integer(1, ends);
  if (which <= 2) return which == 1 ? range.least : range.greatest;
  return random.integer(range.least, range.greatest);
}

double made_of(double normal, SampleFloats floats) {
  const double magnitude = std::fabs(normal);
  switch (floats) {
    case SampleFloats::positive:
      return magnitude;
    case SampleFloats::below_one:
      return magnitude / (1 + magnitude);
    case SampleFloats::above_one:
      return 1 + magnitude;
    default:
      return normal;
  }
}

// What is drawn: of integers, indices below a limit or numbers of a range.
struct Drawn {
  SampleFloats floats = SampleFloats::normal;
  std::optional<int64_t> limit = std::nullopt;
  std::optional<Range> range = std::nullopt;
};

Tensor random_tensor(DType dtype, const Dims& dims, const Drawn& drawn, Random& random) {
  Tensor tensor(dtype, dims);  // zeros
  if (dtype == DType::string) {
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.as_mutable<std::string>()[i] = fmt::format("s{}", random.integer(0, 9));
    return tensor;
  }
  if (is_floating(dtype)) {
    std::vector<float> values(static_cast<size_t>(tensor.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      cancellation_point_at(i);
      values[i] = static_cast<float>(made_of(random.normal(), drawn.floats));
    }
    if (dtype == DType::f64) {
      std::copy(values.begin(), values.end(), tensor.as_mutable<double>());
    } else {
      convert_from_float(dtype, values.data(), tensor.mutable_data(), tensor.size());
    }
    return tensor;
  }
  const int64_t row = dims.empty() ? 1 : std::max<int64_t>(dims.back(), 1);
  const int bytes = std::max(bit_width(dtype) / 8, 1);
  if (is_packed(dtype)) {
    for (size_t i = 0; i < tensor.bytes(); ++i) {
      cancellation_point_at(i);
      tensor.mutable_data()[i] = static_cast<std::byte>(random.integer(0, 255));
    }
    return tensor;
  }
  for (int64_t i = 0; i < tensor.size(); ++i) {
    cancellation_point_at(static_cast<size_t>(i));
    int64_t v = 1;
    if (drawn.limit) {
      v = *drawn.limit > 0 ? random.integer(0, *drawn.limit - 1) : 0;
    } else if (drawn.range) {
      v = draw(*drawn.range, random);
    } else if (i % row != 0 && random.uniform() < 0.1) {
      v = 0;
    }
    std::byte* out = tensor.mutable_data() + i * bytes;
    for (int b = 0; b < bytes; ++b)
      out[b] = static_cast<std::byte>(static_cast<uint64_t>(v) >> (8 * b));  // little endian
  }
  return tensor;
}

constexpr int64_t sample_element_size = 4;

// Elements get one size wherever the type leaves it open, and one axis where it leaves the rank open.
Tensor random_value(const TensorType& type, const Dims& dims, const Drawn& drawn, Random& random) {
  const auto element = [&](const TensorType& inner) {
    Dims sizes;
    for (const Dim& d : inner.shape) sizes.push_back(d.as_constant().value_or(sample_element_size));
    if (!inner.ranked) sizes = {sample_element_size};
    return random_value(inner, sizes, {drawn.floats}, random);
  };
  switch (type.dtype) {
    case DType::sequence: {
      std::vector<Tensor> elements;
      for (int64_t i = 0; i < dims.at(0); ++i) elements.push_back(element(type.elements.at(0)));
      return Tensor::sequence(std::move(elements));
    }
    case DType::optional:
      return Tensor::optional(element(type.elements.at(0)));
    case DType::map: {
      Tensor keys = element(type.elements.at(0));
      return Tensor::map(std::move(keys), element(type.elements.at(1)));
    }
    default:
      return random_tensor(type.dtype, dims, drawn, random);
  }
}

}  // namespace

std::vector<Dims> choose_input_shapes(const Graph& graph, const std::map<std::string, Dims>& given,
                                      const SymbolBindings& symbols, int64_t fallback) {
  SymbolBindings bindings = symbols;
  for (const auto& [name, dims] : given) {
    const auto it = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                 [&, &n = name](ValueId id) { return graph.value(id).name == n; });
    if (it == graph.inputs.end()) {
      std::string known;
      for (const ValueId id : graph.inputs) known += (known.empty() ? "" : ", ") + graph.value(id).name;
      throw Error(ErrorCode::invalid_argument, fmt::format("no input is named '{}'; the inputs are: {}", name, known));
    }
    for (const Dim& d : graph.shape(*it))
      if (const auto symbol = d.as_symbol()) bindings.erase(*symbol);  // what the caller says wins over the profile
  }
  for (const ValueId id : graph.inputs)
    if (const auto it = given.find(graph.value(id).name); it != given.end())
      bind_symbols(graph.shape(id), it->second, fmt::format("input '{}'", it->first), bindings);
  // With many free axes a moderate guess for each is an enormous tensor.
  constexpr double most_guessed_elements = 1 << 23;
  for (int64_t size = fallback;; size = (size + 1) / 2) {
    const SymbolBindings sizes = assume_sizes(graph, bindings, size);
    std::vector<Dims> shapes;
    double elements = 0;
    for (const ValueId id : graph.inputs) {
      Dims dims;
      double count = 1;
      for (const Dim& d : graph.shape(id)) {
        dims.push_back(d.evaluate(sizes));
        count *= static_cast<double>(dims.back());
      }
      elements += count;
      shapes.push_back(std::move(dims));
    }
    if (elements <= most_guessed_elements || size <= 1) return shapes;
  }
}

std::vector<Tensor> sample_inputs(const Graph& graph, const std::vector<Dims>& shapes, uint64_t seed,
                                  SampleIntegers integers, SampleFloats floats) {
  SymbolBindings symbols;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    bind_symbols(graph.shape(graph.inputs[i]), shapes[i], fmt::format("input '{}'", graph.value(graph.inputs[i]).name),
                 symbols);
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    Random random(seed * 1000003 + i);
    const DType dtype = graph.type(graph.inputs[i]).dtype;
    if (integers == SampleIntegers::zeros && is_integer(dtype)) {
      inputs.emplace_back(dtype, shapes[i]);
      continue;
    }
    const auto limit = is_integer(dtype) ? IndexLimit(symbols).of(graph, graph.inputs[i]) : std::nullopt;
    const auto range = integers == SampleIntegers::any ? wide_range(graph, graph.inputs[i]) : std::nullopt;
    inputs.push_back(random_value(graph.type(graph.inputs[i]), shapes[i], {floats, limit, range}, random));
  }
  return inputs;
}

}  // namespace camshaft
