#include "compile/region/scalar_lowering.h"

#include "ir/ops/float8.h"
#include "ir/ops/pointwise.h"

namespace camshaft {

namespace {

class ScalarLowering {
 public:
  explicit ScalarLowering(const Graph& body) : body_(body), instruction_(body.values.size(), -1) {}

  bool add(const Node& node) {
    ScalarInstruction instruction;
    instruction.dtype = body_.type(node.outputs[0]).dtype;
    if (const auto* pointwise = node.op.as<ops::Pointwise>()) {
      instruction.kind = ScalarInstruction::Kind::apply;
      instruction.function = pointwise->function;
    } else if (const auto* cast = node.op.as<ops::Cast>()) {
      if (!cast->saturate && ops::is_float8(cast->to)) return false;
      instruction.kind = ScalarInstruction::Kind::cast;
    } else {
      return false;
    }
    instruction.a = operand(node.inputs[0]);
    if (node.inputs.size() > 1) instruction.b = operand(node.inputs[1]);
    if (node.inputs.size() > 2) instruction.c = operand(node.inputs[2]);
    instruction_[static_cast<size_t>(node.outputs[0])] = append(instruction);
    return true;
  }

  LoweredProgram finish(std::span<const ValueId> results) {
    for (const ValueId id : results) {
      result_.program.outputs.push_back(operand(id));
      result_.results.push_back(id);
    }
    result_.program.inputs = static_cast<int>(result_.loads.size());
    return std::move(result_);
  }

 private:
  int32_t append(const ScalarInstruction& instruction) {
    result_.program.instructions.push_back(instruction);
    return static_cast<int32_t>(result_.program.instructions.size()) - 1;
  }

  int32_t operand(ValueId id) {
    int32_t& known = instruction_[static_cast<size_t>(id)];
    if (known >= 0) return known;
    const Value& value = body_.value(id);
    ScalarInstruction instruction;
    instruction.dtype = value.type.dtype;
    const bool immediate =
        value.constant && value.constant->size() == 1 && !value.constant->is_elided() && value.type.dtype != DType::u64;
    if (immediate) {
      instruction.kind = ScalarInstruction::Kind::constant;
      instruction.number = value.constant->to_doubles()[0];
      if (!is_floating(value.type.dtype)) instruction.integer = value.constant->to_ints()[0];
    } else {
      instruction.kind = ScalarInstruction::Kind::load;
      instruction.a = static_cast<int32_t>(result_.loads.size());
      result_.loads.push_back(id);
    }
    return known = append(instruction);
  }

  const Graph& body_;
  std::vector<int32_t> instruction_;  // of each value, -1: none yet
  LoweredProgram result_;
};

}  // namespace

std::optional<LoweredProgram> lower_scalar_program(const Graph& body, size_t first) {
  return lower_scalar_program(body, nodes_between(body, first, body.nodes.size()), body.outputs);
}

std::optional<LoweredProgram> lower_scalar_program(const Graph& body, std::span<const Node* const> nodes,
                                                   std::span<const ValueId> results) {
  ScalarLowering lowering(body);
  for (const Node* node : nodes)
    if (!lowering.add(*node)) return std::nullopt;
  return lowering.finish(results);
}

std::vector<const Node*> nodes_between(const Graph& body, size_t first, size_t end) {
  std::vector<const Node*> nodes;
  for (size_t n = first; n < end; ++n) nodes.push_back(&body.nodes[n]);
  return nodes;
}

}  // namespace camshaft
