// Kernels for weights of few bits in every form, through the compiler that they are made for.
#include "backends/cuda/codegen/weight_only_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/codegen/contract_text.h"
#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/tactics/epilogue.h"
#include "backends/cuda/tactics/tile_choice.h"

namespace camshaft::cuda::weight_only_text_test {
namespace {

// sum + bias
EpilogueView an_epilogue(DType dtype) {
  using Kind = ScalarInstruction::Kind;
  EpilogueView view;
  view.loads = {4};
  view.types = {dtype};
  view.layouts = {EpilogueView::Layout::columns};
  view.constant = {true};
  view.result = dtype;
  view.program.inputs = 2;
  view.program.instructions = {
      {.kind = Kind::load, .dtype = DType::f32, .a = 0},
      {.kind = Kind::load, .dtype = dtype, .a = 1},
      {.kind = Kind::apply, .function = ScalarFunction::add, .dtype = DType::f32, .a = 0, .b = 1}};
  view.program.outputs = {2};
  return view;
}

std::vector<DType> types_of(int capability) {
  if (capability < 80) return {DType::f16};
  return {DType::f16, DType::bf16, DType::f32};
}

TEST(WeightOnlyText, FewRowsCompile) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  for (const int capability : {75, 80, 90})
    for (const DType x : types_of(capability)) {
      WeightOnlyForm form{.x = x, .scale = x == DType::f16 ? DType::f16 : DType::f32};
      const auto compiles = [&](const WeightOnlyForm& f) {
        const std::string text = weight_only_text(f, finish_text(an_epilogue(x), true));
        EXPECT_FALSE(compiler.compile({"weight_only", text, architecture(capability)}).empty());
      };
      for (const int bits : {2, 4, 8}) {
        form.bits = bits;
        form.has_zeros = bits == 4;
        compiles(form);
      }
      form.one_block = true;
      form.group = form.matrices();
      form.tiles = 4;
      form.depth = 2;
      compiles(form);
    }
}

TEST(WeightOnlyText, TilesCompile) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  for (const int capability : {75, 80, 90})
    for (const DType x : {DType::f16, DType::bf16, DType::f32}) {
      if (x == DType::bf16 && capability < 80) continue;
      ContractForm form{.dtype = x, .tensor_cores = x != DType::f32, .steps = StepForm{}, .aligned = true};
      const std::vector<ContractTile> tiles = contract_tiles(form, features_of(capability));
      int bits = 2;
      for (size_t t = 0; t < tiles.size(); t += 5, bits = bits == 8 ? 2 : bits * 2) {
        form.steps = StepForm{bits, x == DType::f16 && t % 2 == 0 ? DType::f16 : DType::f32, 2, t % 2 == 1};
        const std::string text = contract_text(form, tiles[t], finish_text(an_epilogue(x), true));
        EXPECT_FALSE(compiler.compile({"contract", text, architecture(capability)}).empty());
      }
    }
}

TEST(WeightOnlyText, FloatsCompile) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  for (const DType to : {DType::f16, DType::bf16, DType::f32})
    for (const int bits : {2, 4, 8})
      for (const ExpandZeros zeros : {ExpandZeros::one, ExpandZeros::bytes, ExpandZeros::floats})
        EXPECT_FALSE(
            compiler.compile({"expand", expand_text({to, DType::f32, bits, zeros}), architecture(75)}).empty());
}

}  // namespace
}  // namespace camshaft::cuda::weight_only_text_test
