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

struct ProductView {
  ContractView contract;
  EpilogueView epilogue;
  ContractForm form;
  int32_t a = -1, b = -1;          ///< region inputs
  std::optional<WeightRows> rows;  ///< of a constant b
  const ops::MatMul* matmul = nullptr;
  std::optional<ops::Conv> conv;
  Dims window;  ///< of a convolution: out channels, channels of a group, height, width
};

/// Products and channels-last convolutions of f32, f16 and bf16 where the device has instructions for them, with an
/// epilogue that can be generated; weights of convolutions are constants. nullopt for others. The anchors that it
/// points to are the graph's.
std::optional<ProductView> view_product(const RegionView& region, const DeviceFacts& device);

/// At the shapes that tactics are chosen for.
ContractSize size_at_optimum(const RegionView& region, const ProductView& view);

}  // namespace camshaft::cuda
