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

struct ProductView {
  ContractView contract;  ///< its anchor's inputs are A, B and the bias
  EpilogueView epilogue;  ///< of sums of bytes, without the bias
  ContractForm form;
  int32_t a = -1, b = -1;          ///< region inputs
  std::optional<WeightRows> rows;  ///< of a constant b
  const ops::MatMul* matmul = nullptr;
  std::optional<ops::Conv> conv;
  Dims window;  ///< of a convolution: out channels, channels of a group, height, width
  std::optional<ByteTerms> bytes;
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
