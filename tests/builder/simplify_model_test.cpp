// Models that are written in canonical form, and judged.
#include "builder/simplify_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "onnx/model_writer.h"

namespace camshaft::simplify_model_test {
namespace {

using namespace onnx::testing;  // NOLINT: the writers

// An engine rounds no halves between two sums, as the reference in halves does: by that alone it was refused.
TEST(SimplifyModel, HalvesThatAnEngineDoesNotRoundAreJudgedSo) {
  const std::pair<DType, std::string> types[] = {{DType::f16, std::string("\xd2\x63\xd1\xe3", 4)},    // 1001, -1000.5
                                                 {DType::bf16, std::string("\x7a\x44\x7b\xc4", 4)}};  // 1000, -1004
  for (const auto& [dtype, numbers] : types) {
    const TemporaryFolder folder;
    const GraphWriter graph = GraphWriter()
                                  .input("x", dtype, {6, 8})
                                  .output("y", dtype, {6, 8})
                                  .initializer(TensorWriter("a", {}, dtype, numbers.substr(0, 2)))
                                  .initializer(TensorWriter("b", {}, dtype, numbers.substr(2)))
                                  .node("Add", {"x", "a"}, {"sum"})
                                  .node("Add", {"sum", "b"}, {"y"});
    std::ofstream(folder.file("m.onnx"), std::ios::binary) << ModelWriter().opset(17).graph(graph).bytes();
    RewriteReport report;
    EXPECT_NO_THROW(simplify_model(folder.file("m.onnx"), folder.file("s.onnx"), {}, false, report))
        << to_string(dtype);
  }
}

}  // namespace
}  // namespace camshaft::simplify_model_test
