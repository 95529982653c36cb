#include "builder/build_budget.h"

#include "base/default_limits.h"
#include "base/error.h"
#include "builder/sample_inputs.h"
#include "builder/sample_points.h"
#include "reference/operations.h"
#include "runtime/engine_impl.h"

namespace camshaft {

namespace {

// With what bodies of loops and branches have.
size_t constant_bytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Value& value : graph.values)
    if (value.constant) bytes += value.constant->bytes();
  for (const Node& node : graph.nodes)
    for (const Graph& body : node.bodies) bytes += constant_bytes(body);
  return bytes;
}

bool ends_the_build(const Error& e) {
  return e.code() == ErrorCode::cancelled || e.code() == ErrorCode::out_of_memory;
}

// On which the model is first verified; empty where inputs do not fit, or there are none.
std::vector<Dims> first_shapes(const Graph& model, const BuildOptions& options) {
  try {
    SymbolBindings optimum;
    if (!options.profiles.empty()) optimum = bind_profile(model, options.profiles.front());
    std::map<std::string, Dims> given;
    for (const auto& [name, view] : options.verification_inputs) given[name] = view.dims;
    return choose_input_shapes(model, given, optimum);
  } catch (const Error& e) {
    if (ends_the_build(e)) throw;
    return {};
  }
}

double input_bytes(const Graph& model, const BuildOptions& options) {
  double bytes = 0;
  const std::vector<Dims> shapes = first_shapes(model, options);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const DType dtype = model.type(model.inputs[i]).dtype;
    if (holds_objects(dtype)) continue;
    double elements = bit_width(dtype) / 8.0;
    for (const int64_t size : shapes[i]) elements *= static_cast<double>(size);
    bytes += elements;
  }
  return bytes;
}

}  // namespace

std::shared_ptr<Budget> make_budget(const BuildOptions& options, const Graph& model) {
  const size_t constants = constant_bytes(model);
  const double operations =
      options.max_operations > 0 ? options.max_operations : default_operations(constants, input_bytes(model, options));
  const size_t bytes = options.max_memory > 0 ? static_cast<size_t>(options.max_memory) : default_memory(constants);
  return std::make_shared<Budget>(
      operations, bytes,
      "smaller shapes (--shapes) need fewer, --no-verify with --tuning heuristic runs nothing, and --max-operations "
      "(the option 'max-operations') allows more",
      "smaller shapes (--shapes) need less, --no-verify runs no reference, and --max-memory (the option 'max-memory') "
      "allows more");
}

void check_operations(const Graph& model, const BuildOptions& options, const Budget& budget) {
  const auto shapes = first_shapes(model, options);
  if (shapes.size() != model.inputs.size()) return;
  SymbolBindings symbols;
  try {
    symbols = bind_inputs(model, shapes);
  } catch (const Error& e) {  // inputs that do not fit are refused where they are taken
    if (ends_the_build(e)) throw;
    return;
  }
  check_operations(model, symbols, budget);
}

}  // namespace camshaft
