// The tactic "reference": an operator's own evaluation as a kernel, for everything that a backend has no kernel for.
#include <fmt/format.h>

#include <cstring>

#include "compile/backend.h"
#include "ir/symbols.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

Tensor view(const OperandShape& shape, const std::byte* data) {
  const size_t bytes = byte_size(shape.dtype, element_count(shape.dims));
  return Tensor(shape.dtype, shape.dims, {data, bytes}, nullptr);
}

class ReferenceLaunch final : public Launch {
 public:
  ReferenceLaunch(const Node& node, const std::vector<TensorType>& output_types, const KernelShapes& shapes)
      : node_(node), output_types_(output_types), shapes_(shapes), symbols_(*shapes.symbols) {}

  void run(const LaunchArguments& arguments) override {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < arguments.inputs.size(); ++i)
      inputs.push_back(arguments.inputs[i] || (node_.inputs[i] != no_value)
                           ? view(shapes_.inputs[i], arguments.inputs[i])
                           : Tensor());
    const std::vector<Tensor> results =
        evaluate(node_.op, {inputs, output_types_, symbols_, node_.bodies, arguments.pool, arguments.cancellation});
    for (size_t o = 0; o < arguments.outputs.size(); ++o) {
      if (results[o].dims() != shapes_.outputs[o].dims)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{} gave {}, expected {}", to_string(node_.op), to_string(results[o].dims()),
                                to_string(shapes_.outputs[o].dims)));
      if (arguments.outputs[o] && results[o].bytes() > 0)
        std::memcpy(arguments.outputs[o], results[o].data(), results[o].bytes());
    }
  }

 private:
  const Node& node_;
  const std::vector<TensorType>& output_types_;
  KernelShapes shapes_;
  SymbolBindings symbols_;
};

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const RegionView& region) : node_(region.node) {
    for (const ValueId id : region.node.outputs) {
      const Value& value = region.graph.value(id);
      output_types_.push_back(value.type);
      dynamic_ = dynamic_ || names_sizes_of(value.name, value.type.shape);
    }
    // Strings and containers own memory: they live in tensors of their own.
    for (const auto* ids : {&region.node.inputs, &region.node.outputs})
      for (const ValueId id : *ids)
        dynamic_ = dynamic_ || (id != no_value && holds_objects(region.graph.type(id).dtype));
  }

  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<ReferenceLaunch>(node_, output_types_, shapes);
  }
  bool has_dynamic_outputs() const override { return dynamic_; }
  std::vector<Tensor> run_dynamic(const std::vector<Tensor>& inputs, const SymbolBindings& symbols, ThreadPool& pool,
                                  const Cancellation* cancellation) const override {
    return evaluate(node_.op, {inputs, output_types_, symbols, node_.bodies, pool, cancellation});
  }

 private:
  Node node_;
  std::vector<TensorType> output_types_;
  bool dynamic_ = false;
};

}  // namespace

std::shared_ptr<const Kernel> make_reference_kernel(const RegionView& region) {
  return std::make_shared<ReferenceKernel>(region);
}

}  // namespace camshaft
