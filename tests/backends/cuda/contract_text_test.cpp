// Contraction kernels of every form and tile, through the compiler that they are made for.
#include "backends/cuda/codegen/contract_text.h"

#include <gtest/gtest.h>

#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/tactics/epilogue.h"
#include "backends/cuda/tactics/tile_choice.h"

namespace camshaft::cuda::contract_text_test {
namespace {

// relu(sum + bias) · residual
EpilogueView an_epilogue(DType dtype) {
  using Kind = ScalarInstruction::Kind;
  EpilogueView view;
  view.loads = {2, 3};
  view.types = {dtype, dtype};
  view.layouts = {EpilogueView::Layout::columns, EpilogueView::Layout::dense};
  view.constant = {dtype != DType::f16, false};  // held while sums are made, or not
  view.result = dtype;
  view.program.inputs = 3;
  view.program.instructions = {
      {.kind = Kind::load, .dtype = DType::f32, .a = 0},
      {.kind = Kind::load, .dtype = dtype, .a = 1},
      {.kind = Kind::apply, .function = ScalarFunction::add, .dtype = DType::f32, .a = 0, .b = 1},
      {.kind = Kind::constant, .dtype = DType::f32, .number = 0},
      {.kind = Kind::apply, .function = ScalarFunction::max, .dtype = DType::f32, .a = 2, .b = 3},
      {.kind = Kind::load, .dtype = dtype, .a = 2},
      {.kind = Kind::apply, .function = ScalarFunction::mul, .dtype = DType::f32, .a = 4, .b = 5}};
  view.program.outputs = {6};
  return view;
}

// (sum - mean) · factor, and the moments of that.
EpilogueView a_norm(DType dtype) {
  using Kind = ScalarInstruction::Kind;
  EpilogueView view;
  view.loads = {2, 2};
  view.types = {DType::f32, DType::f32};
  view.layouts = {EpilogueView::Layout::row_mean, EpilogueView::Layout::row_factor};
  view.constant = {false, false};
  view.result = dtype;
  view.norm = ops::RowNorm{};
  view.gives_moments = ops::RowMoments{};
  view.program.inputs = 3;
  view.program.instructions = {
      {.kind = Kind::load, .dtype = DType::f32, .a = 0},
      {.kind = Kind::load, .dtype = DType::f32, .a = 1},
      {.kind = Kind::apply, .function = ScalarFunction::sub, .dtype = DType::f32, .a = 0, .b = 1},
      {.kind = Kind::load, .dtype = DType::f32, .a = 2},
      {.kind = Kind::apply, .function = ScalarFunction::mul, .dtype = DType::f32, .a = 2, .b = 3}};
  view.program.outputs = {4};
  return view;
}

TEST(ContractText, NormsCompile) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  const ContractTile tile{.warps_k = 2};
  for (const auto& [dtype, capability] : {std::pair(DType::f16, 75), {DType::f16, 90}, {DType::bf16, 80}}) {
    const ContractForm form{.dtype = dtype, .tensor_cores = true, .aligned = true};
    EXPECT_FALSE(compiler
                     .compile({"contract", contract_text(form, tile, finish_text(a_norm(dtype), true)),
                               architecture(capability)})
                     .empty());
  }
}

// round(relu(sum · scale + residual)) + 3 as bytes
EpilogueView an_epilogue_of_bytes(DType dtype) {
  using Kind = ScalarInstruction::Kind;
  EpilogueView view;
  view.loads = {2, 3};
  view.types = {DType::f32, dtype};
  view.layouts = {EpilogueView::Layout::columns, EpilogueView::Layout::dense};
  view.constant = {true, false};
  view.result = dtype;
  view.program.inputs = 3;
  view.program.instructions = {
      {.kind = Kind::load, .dtype = DType::i32, .a = 0},
      {.kind = Kind::cast, .dtype = DType::f32, .a = 0},
      {.kind = Kind::load, .dtype = DType::f32, .a = 1},
      {.kind = Kind::apply, .function = ScalarFunction::mul, .dtype = DType::f32, .a = 1, .b = 2},
      {.kind = Kind::load, .dtype = dtype, .a = 2},
      {.kind = Kind::cast, .dtype = DType::f32, .a = 4},
      {.kind = Kind::apply, .function = ScalarFunction::add, .dtype = DType::f32, .a = 3, .b = 5},
      {.kind = Kind::constant, .dtype = DType::f32, .number = 0},
      {.kind = Kind::apply, .function = ScalarFunction::max, .dtype = DType::f32, .a = 6, .b = 7},
      {.kind = Kind::apply, .function = ScalarFunction::round, .dtype = DType::f32, .a = 8},
      {.kind = Kind::constant, .dtype = DType::f32, .number = 3},
      {.kind = Kind::apply, .function = ScalarFunction::add, .dtype = DType::f32, .a = 9, .b = 10},
      {.kind = Kind::cast, .dtype = dtype, .a = 11}};
  view.program.outputs = {12};
  return view;
}

TEST(ContractText, TilesOfBytesCompile) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  const auto compiles = [&](const ContractForm& form, const ContractTile& tile, int capability) {
    const std::string finish = finish_text(an_epilogue_of_bytes(form.dtype), form.aligned);
    EXPECT_FALSE(compiler.compile({"contract", contract_text(form, tile, finish), architecture(capability)}).empty());
    // Nothing is computed in f64.
    EXPECT_EQ(finish.find("f64"), std::string::npos);
  };
  ContractForm form{.dtype = DType::i8,
                    .window = ContractWindow{.channels = 64, .height = 3, .width = 3, .padding = 7},
                    .tensor_cores = true,
                    .aligned = true};
  for (const ContractTile& tile : contract_tiles(form, features_of(90)))
    if (tile.by_warpgroups && (tile.stages <= 4 || tile.persistent)) compiles(form, tile, 90);
  compiles({.dtype = DType::i8, .tensor_cores = true, .aligned = true, .tensor_copies = true},
           {.m = 64,
            .n = 192,
            .warps_m = 4,
            .warps_n = 1,
            .stages = 6,
            .by_warpgroups = true,
            .from_registers = true,
            .persistent = true},
           90);
  form.dtype = DType::u8;
  compiles(form, {.m = 128, .n = 256, .warps_m = 8, .warps_n = 1, .by_warpgroups = true}, 90);
  for (const int capability : {80, 100}) compiles(form, {.warps_k = 2}, capability);
  compiles({.dtype = DType::u8, .tensor_cores = true}, {.warps_k = 2}, 80);
}

TEST(ContractText, EveryTileCompiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  const ContractWindow a_window{.channels = 64, .height = 3, .width = 3};
  const auto compiles = [&](const ContractForm& form, const ContractTile& tile, int capability) {
    EXPECT_FALSE(
        compiler
            .compile({"contract", contract_text(form, tile, finish_text(an_epilogue(form.dtype), form.aligned)),
                      architecture(capability)})
            .empty());
  };
  for (const ContractTile& tile : contract_tiles({.dtype = DType::f16, .tensor_cores = true}, features_of(90)))
    compiles({.dtype = DType::f16, .window = a_window, .tensor_cores = true, .aligned = true}, tile, 90);
  const ContractForm image{.dtype = DType::f16,
                           .window = ContractWindow{.channels = 8, .height = 7, .width = 4, .stride_y = 2},
                           .tensor_cores = true,
                           .aligned = true};
  for (const ContractTile& tile : contract_tiles(image, features_of(90)))
    if (tile.patch_rows > 0) compiles(image, tile, 90);
  for (const ContractTile& tile : contract_tiles({.dtype = DType::f32, .tf32 = true}, features_of(80)))
    compiles({.dtype = DType::f32}, tile, 80);
  for (const ContractTile& tile : contract_tiles({.dtype = DType::bf16, .tensor_cores = true}, features_of(90)))
    if (tile.persistent)
      compiles({.dtype = DType::bf16, .tensor_cores = true, .aligned = true, .tensor_copies = true}, tile, 90);
  const ContractTile usual{.warps_k = 2};
  compiles({.dtype = DType::bf16, .tensor_cores = true}, usual, 80);
  compiles({.dtype = DType::bf16, .b_by_columns = true, .tensor_cores = true}, usual, 100);
  compiles({.dtype = DType::f16, .b_by_columns = true, .tensor_cores = true}, usual, 75);
  const ContractTile by_warpgroups{.m = 128, .n = 64, .warps_m = 8, .warps_n = 1, .stages = 3, .by_warpgroups = true};
  compiles({.dtype = DType::bf16, .tensor_cores = true}, by_warpgroups, 90);
  compiles({.dtype = DType::f16, .b_by_columns = true, .tensor_cores = true, .aligned = true}, by_warpgroups, 90);
  compiles({.dtype = DType::f32, .window = a_window, .aligned = true}, {.warps_k = 2, .tf32 = true}, 90);
}

}  // namespace
}  // namespace camshaft::cuda::contract_text_test
