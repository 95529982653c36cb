#include "reference/derived_constant.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "base/float_types.h"
#include "base/pieces.h"
#include "ir/ops/broadcast.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/widened.h"
#include "reference/element_io.h"
#include "reference/evaluate.h"

namespace camshaft {

std::vector<Tensor> evaluate_on_constants(const Op& op, const std::vector<Tensor>& operands, size_t results,
                                          ThreadPool& pool) {
  // A graph of one node: it checks what the operator is applied to, and derives the types of what it gives.
  Graph graph;
  std::vector<ValueId> inputs;
  for (const Tensor& operand : operands)
    inputs.push_back(operand.defined() ? graph.add_constant("x", operand) : no_value);
  const std::vector<ValueId> outputs = graph.add_node(op, inputs, std::vector<std::string>(results, "y"));
  std::vector<TensorType> types;
  for (const ValueId id : outputs) types.push_back(graph.type(id));
  return evaluate(op, EvalContext{operands, types, SymbolBindings{}, graph.nodes[0].bodies, pool});
}

Constant derive(const Op& op, const std::vector<Constant>& operands, ThreadPool& pool) {
  std::vector<Tensor> tensors;
  for (const Constant& operand : operands) tensors.push_back(operand.tensor ? *operand.tensor : Tensor());
  Constant result = literal(evaluate_on_constants(op, tensors, 1, pool).at(0));
  result.provenance = Provenance::transform(op, operands);
  return result;
}

Constant derive(ScalarFunction function, const std::vector<Constant>& operands, ThreadPool& pool) {
  return derive(ops::Pointwise{function}, operands, pool);
}

Constant derive_cast(const Constant& x, DType to, ThreadPool& pool) {
  return x.tensor->dtype() == to ? x : derive(ops::Cast{.to = to}, {x}, pool);
}

Constant derive_reshaped(const Constant& constant, const Dims& dims, ThreadPool& pool) {
  if (constant.tensor->dims() == dims) return constant;
  return derive(ops::Reshape{Shape(dims.begin(), dims.end())}, {constant}, pool);
}

namespace {

// Elements at a time: they stay in the first-level cache.
constexpr int64_t chunk = 1024;

ops::LoopNest nest_of(const Tensor& x, const std::vector<Constant>& factors) {
  std::vector<Dims> strides{ops::broadcast_strides(x.dims(), x.dims())};
  for (const Constant& factor : factors) {
    if (factor.tensor->dtype() != DType::f64) throw Error(ErrorCode::internal, "factors of a constant are not f64");
    strides.push_back(ops::broadcast_strides(factor.tensor->dims(), x.dims()));
  }
  return ops::collapse(x.dims(), strides);
}

// The record of what derive_product() computes.
Provenance::Pointer product_provenance(const Constant& x, const std::vector<Constant>& factors, ThreadPool& pool) {
  const bool stems_from_model = x.provenance || std::any_of(factors.begin(), factors.end(),
                                                            [](const Constant& f) { return f.provenance != nullptr; });
  if (!stems_from_model) return nullptr;
  const DType dtype = x.tensor->dtype();
  Constant made = x;
  if (dtype != DType::f64) {
    const ops::Cast widen{.to = DType::f64};
    if (x.provenance) {
      made.provenance = Provenance::transform(widen, {x});
    } else if (byte_size(DType::f64, x.tensor->size()) <= Provenance::most_literal_bytes) {
      made = derive(widen, {x}, pool);  // a literal operand is the number that is multiplied
    } else {
      return Provenance::unknown("the product of weights that the model does not name", factors);
    }
  }
  for (const Constant& factor : factors) {
    const ops::Pointwise multiply{ScalarFunction::mul};
    if (!made.provenance && !factor.provenance) {
      made = derive(multiply, {made, factor}, pool);
    } else {
      made.provenance = Provenance::transform(multiply, {made, factor});
    }
  }
  return dtype == DType::f64 ? made.provenance : Provenance::transform(ops::Cast{.to = dtype}, {made});
}

}  // namespace

ConstantProduct derive_product(const Constant& x, const std::vector<Constant>& factors, ThreadPool& pool) {
  const Tensor& in = *x.tensor;
  Tensor out(in.dtype(), in.dims());
  std::byte* target = out.mutable_data();
  const ops::LoopNest nest = nest_of(in, factors);
  std::mutex mutex;
  double largest = 0;
  for_pieces(pool, in.size(), chunk, [&](int64_t begin, int64_t end) {
    std::vector<double> products(static_cast<size_t>(chunk));
    double most = 0;
    for (int64_t first = begin; first < end; first += chunk) {
      const int64_t last = std::min(first + chunk, end);
      ops::load_elements(in.dtype(), in.data(), first, 1, last - first, products.data());
      ops::for_runs(nest, first, last, [&](int64_t position, const Dims& offsets, int64_t count) {
        double* run = products.data() + (position - first);
        for (size_t f = 0; f < factors.size(); ++f) {
          const double* factor = factors[f].tensor->as<double>() + offsets[f + 1];
          const int64_t stride = nest.strides[f + 1].back();
          for (int64_t i = 0; i < count; ++i) run[i] *= factor[i * stride];
        }
      });
      for (int64_t i = 0; i < last - first; ++i) most = std::max(most, std::abs(products[static_cast<size_t>(i)]));
      ops::store_elements(out.dtype(), target, first, 1, last - first, products.data());
    }
    const std::lock_guard lock(mutex);
    largest = std::max(largest, most);
  });
  return {{std::make_shared<const Tensor>(std::move(out)), product_provenance(x, factors, pool)}, largest};
}

Constant derive_converted(const Constant& x, DType to) {
  Constant made;
  if (to == DType::f32) {
    made = literal(widened(*x.tensor));
  } else {
    if (x.tensor->dtype() != DType::f32) throw Error(ErrorCode::internal, "only f32 is narrowed");
    Tensor narrow(to, x.tensor->dims());
    convert_from_float(to, x.tensor->as<float>(), narrow.mutable_data(), narrow.size());
    made = literal(std::move(narrow));
  }
  made.provenance = Provenance::transform(ops::Cast{.to = to}, {x});
  return made;
}

}  // namespace camshaft
