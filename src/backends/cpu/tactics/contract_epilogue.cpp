#include "backends/cpu/tactics/contract_epilogue.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/tactics/activation_match.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cpu {

namespace {

using Kind = ScalarInstruction::Kind;

constexpr size_t max_operands = 64;
// A row of 64 elements takes less than what is done for each run (a PReLU with a slope a channel: 100 us for 4096 such
// rows); operands of one element a column are repeated for as many rows as have so many elements together.
constexpr int64_t elements_of_run = 2048;

// How often each instruction is read.
std::vector<int> count_uses(const ScalarProgram& program) {
  std::vector<int> uses(program.instructions.size(), 0);
  for (const ScalarInstruction& i : program.instructions) {
    if (i.kind == Kind::load || i.kind == Kind::constant) continue;
    for (const int32_t operand : {i.a, i.b, i.c})
      if (operand >= 0) ++uses[static_cast<size_t>(operand)];
  }
  for (const int32_t o : program.outputs) ++uses[static_cast<size_t>(o)];
  return uses;
}

// Where the operand of each row of the result starts, in elements.
std::vector<int64_t> offsets_of_rows(const Dims& operand, const Dims& result) {
  const size_t rank = result.size(), missing = rank - operand.size();
  std::vector<int64_t> strides(rank, 0);
  int64_t stride = 1;
  for (size_t d = rank; d-- > missing;) {
    strides[d] = operand[d - missing] == 1 ? 0 : stride;
    stride *= operand[d - missing];
  }
  const int64_t rows = result.back() == 0 ? 0 : element_count(result) / result.back();
  std::vector<int64_t> offsets(static_cast<size_t>(rows), 0);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t rest = r;
    for (size_t d = rank - 1; d-- > 0; rest /= result[d])
      offsets[static_cast<size_t>(r)] += rest % result[d] * strides[d];
  }
  return offsets;
}

}  // namespace

OperandLayout layout_of(const Shape& operand, const Shape& result) {
  const bool one = std::all_of(operand.begin(), operand.end(), [](const Dim& d) { return d == Dim(1); });
  if (one) return OperandLayout::scalar;
  if (operand == result) return OperandLayout::full;
  const bool leading_ones = std::all_of(operand.begin(), operand.end() - 1, [](const Dim& d) { return d == Dim(1); });
  if (leading_ones && operand.back() == result.back()) return OperandLayout::columns;
  return OperandLayout::general;
}

std::optional<ContractEpilogue> ContractEpilogue::make(const RegionView& region, const ContractView& view,
                                                       int32_t bias_input, int residuals) {
  ContractEpilogue e;
  e.bias_ = bias_input;
  const bool of_sums = view.result.dtype == DType::i32;
  if (!of_sums && (view.result.dtype != DType::f32 || region.graph.type(region.node.outputs[0]).dtype != DType::f32))
    return std::nullopt;
  if (!view.epilogue) return e;
  const ScalarProgram& program = *view.epilogue;
  if (program.outputs.size() != 1 || program.inputs >= static_cast<int>(max_operands)) return std::nullopt;

  // Follow the contraction's result through adds and clamps that the micro-kernel can do itself.
  const std::vector<int> uses = count_uses(program);
  std::vector<bool> peeled(program.instructions.size(), false);
  int32_t accumulator = -1;
  for (size_t i = 0; i < program.instructions.size(); ++i)
    if (program.instructions[i].kind == Kind::load &&
        view.epilogue_loads[static_cast<size_t>(program.instructions[i].a)] < 0)
      accumulator = static_cast<int32_t>(i);
  if (accumulator < 0) return std::nullopt;
  bool clamped = false;
  while (!of_sums && uses[static_cast<size_t>(accumulator)] == 1 && program.outputs[0] != accumulator) {
    size_t next = 0;
    while (next < program.instructions.size()) {
      const ScalarInstruction& i = program.instructions[next];
      if ((i.kind == Kind::apply || i.kind == Kind::cast) &&
          (i.a == accumulator || i.b == accumulator || i.c == accumulator))
        break;
      ++next;
    }
    if (next == program.instructions.size()) break;
    const ScalarInstruction& i = program.instructions[next];
    if (i.kind != Kind::apply || i.dtype != DType::f32) break;
    const int32_t other_index = i.a == accumulator ? i.b : i.a;
    if (other_index < 0 || other_index == accumulator) break;
    const ScalarInstruction& other = program.instructions[static_cast<size_t>(other_index)];
    if (i.function == ScalarFunction::add && other.kind == Kind::load && other.dtype == DType::f32 && !clamped) {
      const int32_t input = view.epilogue_loads[static_cast<size_t>(other.a)];
      const OperandLayout layout =
          layout_of(region.graph.shape(region.node.inputs[static_cast<size_t>(input)]), view.result.shape);
      if (layout == OperandLayout::columns && e.bias_ < 0 && e.residual_ < 0) {
        e.bias_ = input;
      } else if (layout == OperandLayout::full && e.residual_ < 0) {
        e.residual_ = input;
      } else if (layout == OperandLayout::full && static_cast<int>(e.more_residuals_.size()) + 1 < residuals) {
        e.more_residuals_.push_back(input);
      } else {
        break;
      }
    } else if ((i.function == ScalarFunction::max || i.function == ScalarFunction::min) &&
               other.kind == Kind::constant && !std::isnan(other.number)) {  // a NaN is no bound: all becomes NaN
      const auto bound = static_cast<float>(other.number);
      if (i.function == ScalarFunction::max) {
        e.lo_ = std::max(e.lo_, bound);
        e.hi_ = std::max(e.hi_, bound);
      } else {
        e.hi_ = std::min(e.hi_, bound);
        e.lo_ = std::min(e.lo_, bound);
      }
      clamped = true;
    } else {
      break;
    }
    peeled[next] = true;
    accumulator = static_cast<int32_t>(next);
  }
  if (!of_sums) e.take_activation(region, view, accumulator);
  const auto among = [&](const std::vector<int32_t>& inputs) {
    return std::find(inputs.begin(), inputs.end(), e.residual_) != inputs.end();
  };
  e.residual_only_ = !among(view.anchor_inputs) && !among(e.more_residuals_) && e.addend_ != e.residual_;
  if (program.outputs[0] == accumulator) return e;

  // The rest, with the block itself in place of the last peeled instruction.
  ScalarProgram rest;
  std::vector<int32_t> renumber(program.instructions.size(), -1);
  std::vector<bool> needed(program.instructions.size(), false);
  needed[static_cast<size_t>(program.outputs[0])] = true;
  for (size_t i = program.instructions.size(); i-- > 0;) {
    if (!needed[i] || static_cast<int32_t>(i) == accumulator) continue;
    const ScalarInstruction& instruction = program.instructions[i];
    if (instruction.kind == Kind::load || instruction.kind == Kind::constant) continue;
    for (const int32_t operand : {instruction.a, instruction.b, instruction.c})
      if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
  }
  rest.inputs = 1;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (!needed[i] && static_cast<int32_t>(i) != accumulator) continue;
    ScalarInstruction instruction = program.instructions[i];
    if (static_cast<int32_t>(i) == accumulator) {
      instruction = ScalarInstruction{};
      instruction.dtype = view.result.dtype;
      instruction.a = 0;
    } else if (instruction.kind == Kind::load) {
      const int32_t input = view.epilogue_loads[static_cast<size_t>(instruction.a)];
      e.loads_.push_back(input);
      e.layouts_.push_back(
          layout_of(region.graph.shape(region.node.inputs[static_cast<size_t>(input)]), view.result.shape));
      instruction.a = rest.inputs++;
    } else if (instruction.kind != Kind::constant) {
      for (int32_t* operand : {&instruction.a, &instruction.b, &instruction.c})
        if (*operand >= 0) *operand = renumber[static_cast<size_t>(*operand)];
    }
    renumber[i] = static_cast<int32_t>(rest.instructions.size());
    rest.instructions.push_back(instruction);
  }
  e.residual_only_ = e.residual_only_ && !among(e.loads_);
  rest.outputs = {renumber[static_cast<size_t>(program.outputs[0])]};
  try {
    TileProgram(rest, std::vector<RowForm>(static_cast<size_t>(rest.inputs), RowForm::vector));
  } catch (const Error&) {
    return std::nullopt;  // a type or function without vector loops
  }
  e.program_ = std::move(rest);
  return e;
}

void ContractEpilogue::take_activation(const RegionView& region, const ContractView& view, int32_t& accumulator) {
  const ScalarProgram& program = *view.epilogue;
  const auto input_of = [&](int32_t load) { return view.epilogue_loads[static_cast<size_t>(load)]; };
  const auto number_of = [&](int32_t load) -> std::optional<float> {
    if (input_of(load) < 0) return std::nullopt;
    const Tensor* constant = region.constant(static_cast<size_t>(input_of(load)));
    if (!constant || constant->dtype() != DType::f32 || constant->size() != 1) return std::nullopt;
    return constant->as<float>()[0];
  };
  const std::optional<ActivationMatch> match = match_activation(program, accumulator, number_of);
  if (!match) return;
  activation_ = match->activation;
  accumulator = match->result;
  // A residual behind the activation (x + silu(conv(x))).
  if (program.outputs[0] == accumulator || count_uses(program)[static_cast<size_t>(accumulator)] != 1) return;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const ScalarInstruction& add = program.instructions[i];
    if (add.kind != Kind::apply || add.function != ScalarFunction::add || add.dtype != DType::f32) continue;
    if ((add.a == accumulator) == (add.b == accumulator)) continue;
    const ScalarInstruction& other = program.instructions[static_cast<size_t>(add.a == accumulator ? add.b : add.a)];
    if (other.kind != Kind::load || other.dtype != DType::f32 || input_of(other.a) < 0) return;
    const auto& shape = region.graph.shape(region.node.inputs[static_cast<size_t>(input_of(other.a))]);
    if (layout_of(shape, view.result.shape) != OperandLayout::full) return;
    addend_ = input_of(other.a);
    accumulator = static_cast<int32_t>(i);
    return;
  }
}

bool ContractEpilogue::reads_slices(size_t i) const {
  const auto input = static_cast<int32_t>(i);
  for (size_t k = 0; k < loads_.size(); ++k)
    if (loads_[k] == input && layouts_[k] != OperandLayout::full) return false;
  return input != bias_;
}

bool ContractEpilogue::reads(size_t i) const {
  const auto input = static_cast<int32_t>(i);
  return input == bias_ || input == residual_ || input == addend_ ||
         std::find(more_residuals_.begin(), more_residuals_.end(), input) != more_residuals_.end() ||
         std::find(loads_.begin(), loads_.end(), input) != loads_.end();
}

BoundEpilogue::BoundEpilogue(const ContractEpilogue& epilogue, const KernelShapes& shapes, int64_t columns)
    : epilogue_(epilogue),
      columns_(columns),
      width_(bit_width(shapes.outputs[0].dtype) / 8),
      pitch_(shapes.outputs[0].pitch()) {
  const auto pitch_of = [&](int32_t input) {
    return input < 0 ? 0 : shapes.inputs[static_cast<size_t>(input)].pitch();
  };
  residual_pitch_ = pitch_of(epilogue.residual_);
  for (size_t i = 0; i < epilogue.more_residuals_.size(); ++i)
    more_residual_pitches_[i] = pitch_of(epilogue.more_residuals_[i]);
  addend_pitch_ = pitch_of(epilogue.addend_);
  if (!epilogue.program_) return;
  flat_ = pitch_ == columns_;
  const Dims& result = shapes.outputs[0].dims;
  std::vector<RowForm> forms{RowForm::vector};
  for (size_t k = 0; k < epilogue.loads_.size(); ++k) {
    const OperandShape& shape = shapes.inputs[static_cast<size_t>(epilogue.loads_[k])];
    Operand operand;
    operand.input = epilogue.loads_[k];
    operand.width = bit_width(shape.dtype) / 8;
    require_broadcast(shape.dims, result);
    switch (epilogue.layouts_[k]) {
      case OperandLayout::scalar:
        break;
      case OperandLayout::columns:
        operand.vector = true;
        run_rows_ = std::max<int64_t>(1, elements_of_run / std::max<int64_t>(1, columns));
        break;
      case OperandLayout::full:
        operand.vector = true;
        operand.row_stride = shape.pitch();
        flat_ = flat_ && operand.row_stride == columns_;
        break;
      case OperandLayout::general: {
        flat_ = false;
        operand.vector = !shape.dims.empty() && shape.dims.back() == columns && columns != 1;
        operand.row_offsets = offsets_of_rows(shape.dims, result);
        break;
      }
    }
    forms.push_back(operand.vector ? RowForm::vector : RowForm::uniform);
    operands_.push_back(std::move(operand));
  }
  flat_ = flat_ && run_rows_ > 1;
  for (size_t k = 0; flat_ && k < operands_.size(); ++k)
    if (epilogue.layouts_[k] == OperandLayout::columns)
      operands_[k].repeated =
          std::make_unique<std::byte[]>(static_cast<size_t>(run_rows_ * columns * operands_[k].width));
  program_ = std::make_unique<TileProgram>(*epilogue.program_, forms);
}

Epilogue BoundEpilogue::bind(const LaunchArguments& arguments, void* c) {
  Epilogue e;
  const auto input = [&](int32_t i) {
    return reinterpret_cast<const float*>(arguments.inputs[static_cast<size_t>(i)]);
  };
  if (epilogue_.bias_ >= 0) e.bias = input(epilogue_.bias_);
  if (epilogue_.residual_ >= 0) {
    e.residual = input(epilogue_.residual_);
    e.residual_ld = residual_pitch_;
  }
  for (size_t i = 0; i < epilogue_.more_residuals_.size(); ++i)
    e.more_residuals[i] = {input(epilogue_.more_residuals_[i]), more_residual_pitches_[i]};
  e.lo = epilogue_.lo_;
  e.hi = epilogue_.hi_;
  if (epilogue_.activation_) e.activation = &*epilogue_.activation_;
  if (epilogue_.addend_ >= 0) {
    e.addend = input(epilogue_.addend_);
    e.addend_ld = addend_pitch_;
  }
  if (!program_) return e;
  c_ = static_cast<std::byte*>(c);
  for (Operand& operand : operands_) {
    operand.data = arguments.inputs[static_cast<size_t>(operand.input)];
    const auto row = static_cast<size_t>(columns_ * operand.width);
    for (int64_t r = 0; operand.repeated && r < run_rows_; ++r)
      std::memcpy(operand.repeated.get() + static_cast<size_t>(r) * row, operand.data, row);
  }
  e.callback = &BoundEpilogue::run_block;
  e.context = this;
  return e;
}

void BoundEpilogue::run_block(void* self, int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
  const auto& e = *static_cast<const BoundEpilogue*>(self);
  e.run(e.c_ + (row0 * e.pitch_ + col0) * e.width_, e.pitch_ * e.width_, row0, rows, col0, cols);
}

void BoundEpilogue::run_sums(void* self, const int32_t* block, int64_t ld, int64_t row0, int64_t rows, int64_t col0,
                             int64_t cols) {
  constexpr auto width = static_cast<int64_t>(sizeof(int32_t));
  static_cast<const BoundEpilogue*>(self)->run(reinterpret_cast<const std::byte*>(block), ld * width, row0, rows, col0,
                                               cols);
}

void BoundEpilogue::run(const std::byte* from, int64_t from_pitch, int64_t row0, int64_t rows, int64_t col0,
                        int64_t cols) const {
  const BoundEpilogue& e = *this;
  const void* inputs[max_operands];
  void* outputs[1];
  const bool flat = e.flat_ && cols == e.columns_ && from_pitch == cols * 4;
  const int64_t step = flat ? std::min(rows, e.run_rows_) : 1;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t row = row0 + r, count = std::min(step, rows - r) * cols;
    inputs[0] = from + r * from_pitch;
    outputs[0] = e.c_ + (row * e.pitch_ + col0) * e.width_;
    for (size_t k = 0; k < e.operands_.size(); ++k) {
      const Operand& operand = e.operands_[k];
      if (flat && operand.repeated) {
        inputs[k + 1] = operand.repeated.get();
        continue;
      }
      const int64_t start =
          operand.row_offsets.empty() ? row * operand.row_stride : operand.row_offsets[static_cast<size_t>(row)];
      inputs[k + 1] = operand.data + (start + (operand.vector ? col0 : 0)) * operand.width;
    }
    e.program_->run_row(count, inputs, outputs);
  }
}

}  // namespace camshaft::cpu
