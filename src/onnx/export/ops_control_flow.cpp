// Operators with bodies.
#include "ir/ops/control_flow.h"
#include "ir/ops/scan.h"
#include "ir/ops/sequence.h"
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

void export_as(ExportContext& c, const ops::If&) {
  GraphProto then_branch = c.body(0, 0, 1), else_branch = c.body(1, 0, 1);
  c.result("If", {c.input(0)},
           Attributes().graph("then_branch", std::move(then_branch)).graph("else_branch", std::move(else_branch)));
}

// ONNX has nothing that fails. Where the condition does not hold, the only element of a list is picked at 1, which is
// an error; where it does, that element changes nothing: 0 is subtracted, false is or-ed, "" is appended.
void export_as(ExportContext& c, const ops::Check& op) {
  const DType dtype = c.dtype(1);
  if (is_container(dtype))
    c.unsupported("ONNX has nothing that checks a condition before it gives a sequence, an optional or a map");
  const std::string condition = c.reshape(c.input(0), c.shape(0), {});
  const std::string good = c.integer(0), bad = c.integer(1);
  const std::string place = c.add("Where", {condition, op.wanted ? good : bad, op.wanted ? bad : good});
  const std::string neutral = c.add("Gather", {c.constant(Tensor(dtype, {1})), place});
  if (dtype == DType::boolean) return c.result("Or", {c.input(1), neutral});
  if (dtype == DType::string) return c.result("StringConcat", {c.input(1), neutral});
  c.result("Sub", {c.input(1), neutral});
}

void export_as(ExportContext& c, const ops::Loop& op) {
  const auto carried = static_cast<size_t>(op.carried);
  std::vector<std::string> inputs = c.inputs();
  inputs.resize(2 + carried);
  if (inputs[0].empty() && inputs[1].empty()) inputs[1] = c.constant(Tensor::scalar(DType::boolean, 1));
  c.result("Loop", std::move(inputs), Attributes().graph("body", c.body(0, 2 + carried, 2 + carried)));
}

void export_as(ExportContext& c, const ops::Scan& op) {
  const size_t count = static_cast<size_t>(op.states) + op.input_axes.size();
  std::vector<std::string> inputs = c.inputs();
  inputs.resize(count);
  c.result("Scan", std::move(inputs),
           Attributes()
               .integer("num_scan_inputs", static_cast<int64_t>(op.input_axes.size()))
               .integers("scan_input_axes", op.input_axes)
               .integers("scan_input_directions", op.input_reversed)
               .integers("scan_output_axes", op.output_axes)
               .integers("scan_output_directions", op.output_reversed)
               .graph("body", c.body(0, count, count)));
}

void export_as(ExportContext& c, const ops::SequenceMap& op) {
  const auto count = static_cast<size_t>(op.count);
  std::vector<std::string> inputs = c.inputs();
  inputs.resize(count);
  c.result("SequenceMap", std::move(inputs), Attributes().graph("body", c.body(0, count, count)));
}

}  // namespace camshaft::onnx
