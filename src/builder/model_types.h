// What a model stores its tensors in, and what it keeps in fp32 beside.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "builder/builder.h"
#include "compile/backend.h"
#include "ir/graph.h"
#include "optimize/precision_rules.h"

namespace camshaft {

/// f16 or bf16 where most of the model's products and convolutions read it, else f32.
DType stored_type(const Graph& model);

/// The options with fp16 or bf16 where the model is in it and the backend gains from it, unless they allow one of the
/// two, ask for exactly the model's types, or for weights that can be replaced.
BuildOptions with_types_of(BuildOptions options, const Graph& model, const Backend& backend);

/// What a model in halves computes in fp32: a model's author does that where halves do not do.
struct WideParts {
  std::vector<PrecisionRule> products;  ///< a rule for each product with weights, and convolution
  std::set<std::string> values;         ///< results that others read as they are, not only to make halves of them
};
/// Nothing of a model whose stored_type() is f32.
WideParts wide_parts(const Graph& model);

}  // namespace camshaft
