#include "backends/cuda/tactics/linear_epilogue.h"

#include "compile/region/peel_epilogue.h"

namespace camshaft::cuda {

namespace {

bool has_library(const ActivationFunction& function) {
  const auto known = known_activation(function);
  return known && *known != KnownActivation::tanh_of_softplus;
}

}  // namespace

std::optional<LinearEpilogue> linear_epilogue(const EpilogueView& view) {
  if (view.norm || view.gives_moments) return std::nullopt;
  const PeeledEpilogue peeled =
      peel_epilogue(view, {.factors = true, .wanted = {.number_of = {}, .takes = has_library, .narrow_types = true}});
  if (peeled.rest) return std::nullopt;
  LinearEpilogue made;
  made.alpha = peeled.alpha;
  made.bias = peeled.bias;
  if (!peeled.residuals.empty()) {
    made.residual = peeled.residuals[0].load;
    made.beta = peeled.residuals[0].beta;
  }
  if (peeled.activation) made.activation = known_activation(*peeled.activation);
  return made;
}

}  // namespace camshaft::cuda
