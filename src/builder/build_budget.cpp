#include "builder/build_budget.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/memory_limit.h"
#include "builder/sample_inputs.h"
#include "builder/sample_points.h"
#include "reference/operations.h"
#include "runtime/engine_impl.h"

namespace camshaft {

namespace {

// Without weights, and by the byte of them: much as long as there are few, for those of convolutions are used often.
constexpr double least_operations = 1e12, of_few_bytes = 1e7, many_operations = 1e14, of_many_bytes = 1e5;
constexpr size_t least_default_bytes = size_t{6} << 30, bytes_per_byte = 16;
constexpr size_t machines_share = 4;

double default_operations(double constants) {
  return std::min(least_operations + of_few_bytes * constants, many_operations + of_many_bytes * constants);
}

// With what bodies of loops and branches have.
size_t constant_bytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Value& value : graph.values)
    if (value.constant) bytes += value.constant->bytes();
  for (const Node& node : graph.nodes)
    for (const Graph& body : node.bodies) bytes += constant_bytes(body);
  return bytes;
}

}  // namespace

std::shared_ptr<Budget> make_budget(const BuildOptions& options, const Graph& model) {
  const size_t constants = constant_bytes(model);
  const double operations =
      options.max_operations > 0 ? options.max_operations : default_operations(static_cast<double>(constants));
  const size_t bytes = options.max_memory > 0 ? static_cast<size_t>(options.max_memory)
                                              : std::max(least_default_bytes, largest_buffer() / machines_share) +
                                                    bytes_per_byte * constants;
  return std::make_shared<Budget>(
      operations, bytes,
      "smaller shapes (--shapes) need fewer, --no-verify with --tuning heuristic runs nothing, and --max-operations "
      "(the option 'max-operations') allows more",
      "smaller shapes (--shapes) need less, --no-verify runs no reference, and --max-memory (the option 'max-memory') "
      "allows more");
}

void check_operations(const Graph& model, const BuildOptions& options, const Budget& budget) {
  SymbolBindings optimum, symbols;
  if (!options.profiles.empty()) optimum = bind_profile(model, options.profiles.front());
  std::map<std::string, Dims> given;
  for (const auto& [name, view] : options.verification_inputs) given[name] = view.dims;
  try {
    symbols = bind_inputs(model, choose_input_shapes(model, given, optimum));
  } catch (const Error&) {  // inputs that do not fit are refused where they are taken
    return;
  }
  double total = 0, most = 0;
  const Node* dearest = nullptr;
  for (const Node& node : model.nodes) {
    const double count = operations_of(model, node, symbols);
    total += count;
    if (count > most) {
      most = count;
      dearest = &node;
    }
  }
  if (!dearest) return;
  const std::string name = dearest->sources.empty() ? std::string(dearest->op.name()) : dearest->sources.front();
  budget.check_operations(total, fmt::format("running the model once, node '{}' with {:.2g} above all,", name, most));
}

}  // namespace camshaft
