// Epilogues that NVIDIA's libraries have.
#pragma once

#include <optional>

#include "compile/region/epilogue_view.h"
#include "ir/activation.h"

namespace camshaft::cuda {

/// result = activation(alpha · sum + beta · residual + bias)
struct LinearEpilogue {
  double alpha = 1, beta = 0;
  int32_t residual = -1;  ///< the index in EpilogueView::loads of what lies as the result does; -1: none
  int32_t bias = -1;      ///< … of what has one element for each column
  std::optional<KnownActivation> activation;  ///< none, or one that a library has
};

/// The epilogue in that form, however the model has spelled it; nullopt when it is another function.
std::optional<LinearEpilogue> linear_epilogue(const EpilogueView& view);

}  // namespace camshaft::cuda
