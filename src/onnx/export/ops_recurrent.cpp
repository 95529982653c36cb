// Recurrent layers and linear attention.
#include <cmath>

#include "ir/ops/gather_matmul.h"
#include "ir/ops/linear_attention.h"
#include "ir/ops/paged.h"
#include "ir/ops/paged_update.h"
#include "ir/ops/recurrent.h"
#include "ir/ops/recurrent_activation.h"
#include "ir/ops/recurrent_inputs.h"
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

namespace {

const char* operator_of(ops::CellKind cell) {
  switch (cell) {
    case ops::CellKind::rnn:
      return "RNN";
    case ops::CellKind::gru:
      return "GRU";
    case ops::CellKind::lstm:
      break;
  }
  return "LSTM";
}

/// Names as the standard spells them: runtimes compare them without case, but not all.
std::string spelled(const std::string& activation) {
  constexpr const char* names[] = {"Relu",       "Tanh",        "Sigmoid", "Affine",   "LeakyRelu", "ThresholdedRelu",
                                   "ScaledTanh", "HardSigmoid", "Elu",     "Softsign", "Softplus"};
  for (const std::string name : names) {
    bool same = name.size() == activation.size();
    for (size_t i = 0; same && i < name.size(); ++i) same = (name[i] | 0x20) == activation[i];
    if (same) return name;
  }
  return activation;
}

}  // namespace

void export_as(ExportContext& c, const ops::Recurrent& op) {
  std::vector<std::string> names;
  std::vector<double> alphas, betas;
  for (size_t i = 0; i < op.activations.size(); ++i) {
    const ops::RecurrentActivation* activation = ops::find_recurrent_activation(op.activations[i]);
    names.push_back(spelled(op.activations[i]));
    // Listed only for the activations that have them.
    if (activation && activation->has_alpha) alphas.push_back(op.alphas[i]);
    if (activation && activation->has_beta) betas.push_back(op.betas[i]);
  }
  const Shape &recurrence = c.shape(ops::Recurrent::in_recurrence), &weights = c.shape(ops::Recurrent::in_weights);
  Attributes attributes =
      Attributes().text("direction", EnumNames<ops::Direction>::values[static_cast<size_t>(op.direction)]);
  attributes.integer("hidden_size", recurrence[2].is_constant()
                                        ? recurrence[2].value()
                                        : c.fixed(weights[1], "the size of the state") / ops::gate_count(op.cell));
  attributes.texts("activations", std::move(names));
  if (!alphas.empty()) attributes.numbers("activation_alpha", alphas);
  if (!betas.empty()) attributes.numbers("activation_beta", betas);
  if (op.clip > 0) attributes.number("clip", op.clip);
  if (op.input_forget) attributes.integer("input_forget", 1);
  if (op.linear_before_reset) attributes.integer("linear_before_reset", 1);
  c.result(operator_of(op.cell), c.inputs(), std::move(attributes));
}

void export_as(ExportContext& c, const ops::LinearAttention& op) {
  const char* rule = op.gated ? (op.delta ? "gated_delta" : "gated") : (op.delta ? "delta" : "linear");
  Attributes attributes = Attributes().integer("q_num_heads", op.heads).integer("kv_num_heads", op.key_heads);
  attributes.text("update_rule", rule);
  // 1 / sqrt(size of a head), which f32 may not hold, is what it is without the attribute.
  const auto width = c.shape(ops::LinearAttention::in_query).back().as_constant();
  if (!width || op.scale != 1 / std::sqrt(static_cast<double>(*width / op.heads))) attributes.number("scale", op.scale);
  c.result({"LinearAttention", 27}, c.inputs(), std::move(attributes));
}

void export_as(ExportContext& c, const ops::GatherMatMul&) {
  c.unsupported("ONNX has no product whose rows choose their matrix");
}
void export_as(ExportContext& c, const ops::PagedStore&) {
  c.unsupported("ONNX has it as a part of com.microsoft.PagedAttention alone");
}
void export_as(ExportContext& c, const ops::PagedUpdate&) {
  c.unsupported("passes make it, and ONNX has it as a part of com.microsoft.PagedAttention alone");
}
void export_as(ExportContext& c, const ops::PagedQuantize&) {
  c.unsupported("ONNX has no caches whose rows have scales of their own");
}
void export_as(ExportContext& c, const ops::PagedAttention&) {
  c.unsupported("ONNX has it together with the storing of keys and values alone (com.microsoft.PagedAttention)");
}

}  // namespace camshaft::onnx
