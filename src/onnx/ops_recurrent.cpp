// Recurrent layers: RNN, GRU and LSTM.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "ir/ops/move.h"
#include "ir/ops/recurrent.h"
#include "ir/ops/recurrent_activation.h"
#include "onnx/converters.h"
#include "onnx/quote.h"
#include "onnx/recurrent.h"

namespace camshaft::onnx {

namespace {

using ops::CellKind;

ops::Direction direction(ConvertContext& c) {
  const std::string name = c.string_attribute("direction", "forward");
  if (name == "forward") return ops::Direction::forward;
  if (name == "reverse") return ops::Direction::reverse;
  if (name == "bidirectional") return ops::Direction::bidirectional;
  c.invalid(fmt::format("direction {} is unknown", quote(name)));
}

std::vector<std::string> activation_names(ConvertContext& c, CellKind cell, size_t directions) {
  std::vector<std::string> names;
  if (const AttributeProto* given = c.attribute("activations", AttributeType::strings)) {
    names.assign(given->strings.begin(), given->strings.end());
    for (std::string& name : names)
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char letter) { return static_cast<char>(std::tolower(static_cast<unsigned char>(letter))); });
  }
  const size_t wanted = directions * ops::activations_per_direction(cell);
  if (names.empty())
    for (size_t d = 0; d < directions; ++d) {
      if (cell != CellKind::rnn) names.emplace_back("sigmoid");
      names.emplace_back("tanh");
      if (cell == CellKind::lstm) names.emplace_back("tanh");
    }
  // The default that the standard gives RNN has an activation for each of two directions, and some spell it out.
  if (cell == CellKind::rnn && names.size() == 2 * wanted) names.resize(wanted);
  if (names.size() != wanted) c.invalid(fmt::format("{} activations are given, {} are needed", names.size(), wanted));
  return names;
}

// Alphas and betas are listed only for the activations that have them, in their order; what the lists leave out takes
// its default.
void read_activations(ConvertContext& c, ops::Recurrent& op, size_t directions) {
  op.activations = activation_names(c, op.cell, directions);
  const auto alphas = c.floats_attribute("activation_alpha").value_or(std::vector<double>());
  const auto betas = c.floats_attribute("activation_beta").value_or(std::vector<double>());
  size_t next_alpha = 0, next_beta = 0;
  for (const std::string& name : op.activations) {
    const ops::RecurrentActivation* activation = ops::find_recurrent_activation(name);
    if (!activation) c.invalid(fmt::format("activation {} is unknown", quote(name)));
    const bool takes_alpha = activation->has_alpha && next_alpha < alphas.size();
    const bool takes_beta = activation->has_beta && next_beta < betas.size();
    op.alphas.push_back(takes_alpha ? alphas[next_alpha++] : activation->alpha);
    op.betas.push_back(takes_beta ? betas[next_beta++] : activation->beta);
  }
}

}  // namespace

Values recurrent_layer(ConvertContext& c, CellKind cell, Values inputs) {
  ops::Recurrent op;
  op.cell = cell;
  op.direction = direction(c);
  read_activations(c, op, op.direction == ops::Direction::bidirectional ? 2 : 1);
  if (c.has_attribute("clip")) {
    op.clip = c.float_attribute("clip");
    if (!(op.clip > 0)) c.invalid(fmt::format("clip is {}, it must be positive", op.clip));
  }
  op.input_forget = cell == CellKind::lstm && c.int_attribute("input_forget", 0) != 0;
  op.linear_before_reset = cell == CellKind::gru && c.int_attribute("linear_before_reset", 0) != 0;
  const int64_t layout = c.int_attribute("layout", 0);
  if (layout != 0 && layout != 1) c.invalid(fmt::format("layout is {}, not 0 or 1", layout));

  const auto swap_first_axes = [&](ValueId& id) {
    if (id == no_value) return;
    if (c.rank(id) != 3) c.invalid(fmt::format("an input has {} axes instead of 3", c.rank(id)));
    id = c.add(ops::Transpose{{1, 0, 2}}, {id});
  };
  if (layout == 1)
    for (const size_t i : {size_t{0}, size_t{5}, size_t{6}})
      if (i < inputs.size()) swap_first_axes(inputs[i]);
  if (c.rank(inputs[2]) == 3 && c.has_attribute("hidden_size")) {
    const Dim& hidden = c.dim(inputs[2], 2);
    if (hidden.is_constant() && hidden.value() != c.int_attribute("hidden_size"))
      c.invalid(fmt::format("hidden_size is {}, the recurrence weights are for {}", c.int_attribute("hidden_size"),
                            hidden.str()));
  }
  Values outputs = c.results(std::move(op), std::move(inputs), {});
  if (layout == 0) return outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (c.uses_output(i))
      outputs[i] = c.add(ops::Transpose{i == 0 ? std::vector<int64_t>{2, 0, 1, 3} : std::vector<int64_t>{1, 0, 2}},
                         {outputs[i]});
  return outputs;
}

namespace {

Values recurrent(ConvertContext& c, CellKind cell) {
  const size_t most_inputs = cell == CellKind::lstm ? 8 : 6;
  if (c.input_count() > most_inputs)
    c.invalid(fmt::format("it has {} inputs, {} at most are known", c.input_count(), most_inputs));
  Values inputs;
  for (size_t i = 0; i < std::max<size_t>(c.input_count(), 3); ++i)
    inputs.push_back(i < 3 ? c.input(i) : c.input_or_none(i));
  return recurrent_layer(c, cell, std::move(inputs));
}

Values rnn(ConvertContext& c) {
  return recurrent(c, CellKind::rnn);
}
Values gru(ConvertContext& c) {
  return recurrent(c, CellKind::gru);
}
Values lstm(ConvertContext& c) {
  return recurrent(c, CellKind::lstm);
}

constexpr Converter recurrent_table[] = {
    {"GRU", gru},
    {"LSTM", lstm},
    {"RNN", rnn},
};

}  // namespace

std::span<const Converter> recurrent_converters() {
  return recurrent_table;
}

}  // namespace camshaft::onnx
