#include "reference/contract/recurrent_function.h"

#include <cmath>

#include "ir/ops/recurrent_activation.h"
#include "ir/ops/small_tensors.h"

namespace camshaft::ops::recurrent_function_test {
namespace {

// The shape rule lets in what the table of names has.
TEST(RecurrentFunction, OfEveryActivation) {
  for (const RecurrentActivation& activation : recurrent_activations()) {
    double x = 0.5;
    recurrent_function(activation.name)(&x, 1, activation.alpha, activation.beta);
    EXPECT_TRUE(std::isfinite(x)) << activation.name;
  }
  EXPECT_NE(error_of([] { recurrent_function("mish"); }).find("'mish' is unknown"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::recurrent_function_test
