// What makes the rows of a product: a pointwise layer that nobody else reads, chained to it
// (passes/chain_prologues.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/device/contract_parameters.h"
#include "backends/cuda/tactics/epilogue.h"
#include "compile/chain.h"

namespace camshaft::cuda {

/// A chain of a pointwise layer and a product of what that gives, taken apart.
class ChainedProduct {
 public:
  /// nullopt for what is no such chain.
  static std::optional<ChainedProduct> of(const RegionView& chain);

  /// The parts as layers of their own, of the chain's graph; valid as long as this and the chain are.
  RegionView before() const { return {parts_, parts_.nodes[0], chain_->symbols, chain_->threads}; }
  RegionView product() const { return {parts_, parts_.nodes[1], chain_->symbols, chain_->threads}; }
  /// The chain's input that each of a part's is; -1 for what lies between, which the product has as its first.
  const std::vector<int32_t>& inputs_of_before() const { return inputs_[0]; }
  const std::vector<int32_t>& inputs_of_product() const { return inputs_[1]; }
  /// What lies between.
  const TensorType& between() const { return parts_.type(parts_.nodes[0].outputs[0]); }

 private:
  const RegionView* chain_ = nullptr;
  Graph parts_;
  std::vector<int32_t> inputs_[2];
};

/// The pointwise layer as a program that kernels compute where they read rows.
struct Prologue {
  ScalarProgram program;
  std::vector<int32_t> loads;  ///< inputs of the chain
  std::vector<DType> types;    ///< of those
  std::vector<EpilogueView::Layout> layouts;
  DType result = DType::f32;

  bool reads(size_t i) const { return std::find(loads.begin(), loads.end(), static_cast<int32_t>(i)) != loads.end(); }
};

/// nullopt where operands or types are such as kernels do not take.
std::optional<Prologue> view_prologue(const ChainedProduct& chained);

/// `struct ComputedRows`, of which device/row_source.cuh says what it does.
std::string rows_text(const Prologue& prologue);

/// Of a chain's product, taken apart as a layer of its own: its inputs become the chain's, by inputs_of_product().
void use_inputs_of_chain(ContractView& contract, EpilogueView& epilogue, const std::vector<int32_t>& inputs);

/// The operands of a prologue for one set of shapes.
class PrologueOperands {
 public:
  /// `dims`: of what it gives.
  PrologueOperands(const Prologue& prologue, const KernelShapes& shapes, const Dims& dims);
  void bind(const LaunchArguments& arguments, EpilogueOperand* operands) const;

 private:
  std::vector<int32_t> loads_;
  std::vector<OperandMap> maps_;
};

}  // namespace camshaft::cuda
