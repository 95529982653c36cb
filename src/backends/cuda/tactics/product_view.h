// A matrix product, or a convolution as one, taken apart.
#pragma once

#include <optional>

#include "backends/cuda/codegen/contract_text.h"
#include "backends/cuda/driver/device.h"
#include "backends/cuda/tactics/epilogue.h"
#include "backends/cuda/tactics/tile_choice.h"
#include "compile/constants/weight_rows.h"
#include "compile/region/contract_view.h"
#include "ir/ops/contract.h"

namespace camshaft::cuda {

/// What products of bytes have beside their operands.
struct ByteTerms {
  int32_t x_zero = 0;  ///< the zero point of A
  int32_t bias = -1;   ///< region input: i32, one a column, of which sums begin; -1: none
};

/// What a B that is made of weights of few bits has beside them.
struct StepTerms {
  int32_t scale = -1, zero = -1;  ///< region inputs; the latter -1 where all have one zero point
  uint32_t one_zero = 0;          ///< as steps are stored
  int64_t chunks = 0, blocks = 0, matrices_of_block = 0;
};

struct ProductView {
  ContractView contract;  ///< its anchor's inputs are A, B and the bias
  EpilogueView epilogue;  ///< of sums of bytes, without the bias
  ContractForm form;
  int32_t a = -1, b = -1;          ///< region inputs
  std::optional<WeightRows> rows;  ///< of a constant b
  const ops::MatMul* matmul = nullptr;
  std::optional<ops::Conv> conv;
  Dims window;  ///< of a convolution: out channels, channels of a group, height, width
  std::optional<ByteTerms> bytes = std::nullopt;
  std::optional<StepTerms> steps = std::nullopt;

  /// Whether kernels look at region input `i`: not at weights that they have in a layout of their own.
  bool reads_input(size_t i) const {
    const auto input = static_cast<int32_t>(i);
    const bool is_laid_out =
        (rows && input == b) || (steps && (input == steps->scale || (input == steps->zero && input >= 0)));
    return !is_laid_out || epilogue.reads(i);
  }
};

/// Of operand `i` of the region's node.
const TensorType& input_type(const RegionView& region, int32_t i);

/// Products and channels-last convolutions of f32, f16 and bf16 where the device has instructions for them, with an
/// epilogue that can be generated; weights of convolutions are constants. nullopt for others. The anchors that it
/// points to are the graph's.
std::optional<ProductView> view_product(const RegionView& region, const DeviceFacts& device);

/// Products and channels-last convolutions of bytes, where the device has instructions for them: of i8 or u8 with one
/// constant zero point, by a constant i8 without one. nullopt for others.
std::optional<ProductView> view_byte_product(const RegionView& region, const DeviceFacts& device);

/// The same of 8-bit floats of one type, by a constant.
std::optional<ProductView> view_float8_product(const RegionView& region, const DeviceFacts& device);

/// At the shapes that tactics are chosen for.
ContractSize size_at_optimum(const RegionView& region, const ProductView& view);

}  // namespace camshaft::cuda
