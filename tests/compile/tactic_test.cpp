#include "compile/tactic.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace camshaft::tactic_test {
namespace {

TEST(Tactic, TextHasAllParameters) {
  EXPECT_EQ((Tactic{"gemm", 1}).str(), "gemm");
  EXPECT_EQ((Tactic{"winograd", 1, Deviation::rounding, {{"tile", 4}, {"rows", 8}}}).str(), "winograd(tile=4,rows=8)");
}

TEST(Tactic, ParametersAreReadByName) {
  const TacticParameters parameters = {{"tile", 4}, {"rows", 8}};
  EXPECT_EQ(parameters["rows"], 8);
  EXPECT_THROW(parameters["columns"], Error);
  EXPECT_NE(parameters, (TacticParameters{{"tile", 2}, {"rows", 8}}));
}

}  // namespace
}  // namespace camshaft::tactic_test
