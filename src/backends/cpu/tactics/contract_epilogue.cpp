#include "backends/cpu/tactics/contract_epilogue.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/tactics/kernel_activation.h"
#include "compile/plan/shape_check.h"
#include "compile/region/peel_epilogue.h"

namespace camshaft::cpu {

namespace {

using Layout = EpilogueView::Layout;

constexpr size_t max_operands = 64;
// A row of 64 elements takes less than what is done for each run (a PReLU with a slope a channel: 100 us for 4096 such
// rows); operands of one element a column are repeated for as many rows as have so many elements together.
constexpr int64_t elements_of_run = 2048;

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

// The value of a program's input that is one known f32 number.
std::optional<float> number_of(const RegionView& region, const EpilogueView& view, int32_t input) {
  if (input == 0) return std::nullopt;
  const Tensor* constant = region.constant(static_cast<size_t>(view.loads[static_cast<size_t>(input) - 1]));
  if (!constant || constant->dtype() != DType::f32 || constant->size() != 1) return std::nullopt;
  return constant->as<float>()[0];
}

}  // namespace

std::optional<ContractEpilogue> ContractEpilogue::make(const RegionView& region, const ContractView& view,
                                                       int32_t bias_input, const ContractTakes& takes) {
  return make(region, view, view_epilogue(region, view, -1), bias_input, takes);
}

std::optional<ContractEpilogue> ContractEpilogue::make(const RegionView& region, const ContractView& contract,
                                                       const EpilogueView& view, int32_t bias_input,
                                                       const ContractTakes& takes) {
  const DType sum = view.program.instructions[0].dtype, made = contract.result.dtype;
  if (made != DType::f32 && made != DType::i32) return std::nullopt;
  const bool stores = sum == DType::f32 && view.result == DType::bf16 && takes.rounded;
  if (sum != DType::i32 && view.result != DType::f32 && !stores) return std::nullopt;
  if (view.program.inputs >= static_cast<int>(max_operands)) return std::nullopt;
  const PeeledEpilogue peeled = peel_epilogue(
      view, {.bias = bias_input < 0,
             .residuals = static_cast<size_t>(takes.residuals),
             .clamp = true,
             .addend = true,
             .wanted = {.number_of = [&](int32_t input) { return number_of(region, view, input); },
                        .takes = [](const ActivationFunction& f) { return kernel_activation(f).has_value(); }}});
  const auto input_of = [&](int32_t load) { return load < 0 ? -1 : view.loads[static_cast<size_t>(load)]; };
  ContractEpilogue e;
  e.stores_ = stores;
  e.bias_ = bias_input >= 0 ? bias_input : input_of(peeled.bias);
  for (const PeeledEpilogue::Residual& residual : peeled.residuals) {
    if (e.residual_ < 0) {
      e.residual_ = input_of(residual.load);
    } else {
      e.more_residuals_.push_back(input_of(residual.load));
    }
  }
  e.lo_ = peeled.lo;
  e.hi_ = peeled.hi;
  if (peeled.activation) e.activation_ = kernel_activation(*peeled.activation);
  e.addend_ = input_of(peeled.addend);
  const auto among = [&](const std::vector<int32_t>& inputs) {
    return std::find(inputs.begin(), inputs.end(), e.residual_) != inputs.end();
  };
  e.residual_only_ = !among(contract.anchor_inputs) && !among(e.more_residuals_) && e.addend_ != e.residual_;
  if (!peeled.rest) return e;

  e.loads_ = peeled.rest->loads;
  e.layouts_ = peeled.rest->layouts;
  e.residual_only_ = e.residual_only_ && !among(e.loads_);
  const ScalarProgram& rest = peeled.rest->program;
  try {
    TileProgram(rest, std::vector<RowForm>(static_cast<size_t>(rest.inputs), RowForm::vector));
  } catch (const Error&) {
    return std::nullopt;  // a type or function without vector loops
  }
  e.program_ = rest;
  return e;
}

bool ContractEpilogue::reads_slices(size_t i) const {
  const auto input = static_cast<int32_t>(i);
  for (size_t k = 0; k < loads_.size(); ++k)
    if (loads_[k] == input && layouts_[k] != Layout::dense) return false;
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
      case Layout::one:
        break;
      case Layout::columns:
        operand.vector = true;
        run_rows_ = std::max<int64_t>(1, elements_of_run / std::max<int64_t>(1, columns));
        break;
      case Layout::dense:
        operand.vector = true;
        operand.row_stride = shape.pitch();
        flat_ = flat_ && operand.row_stride == columns_;
        break;
      case Layout::row_mean:
      case Layout::row_factor:
        throw Error(ErrorCode::internal, "an epilogue that norms rows has no kernel on a CPU");
      case Layout::general: {
        flat_ = false;
        operand.vector = !shape.dims.empty() && shape.dims.back() == columns && columns != 1;
        operand.row_offsets = offsets_of_rows(shape.dims, result);
        // As one number a row is.
        const auto& offsets = operand.row_offsets;
        const int64_t stride = offsets.size() > 1 ? offsets[1] - offsets[0] : 0;
        bool even = !offsets.empty() && offsets[0] == 0;
        for (size_t r = 1; even && r < offsets.size(); ++r) even = offsets[r] - offsets[r - 1] == stride;
        if (even) {
          operand.row_stride = stride;
          operand.row_offsets.clear();
        }
        has_steps_ = has_steps_ && even;
        break;
      }
    }
    forms.push_back(operand.vector ? RowForm::vector : RowForm::uniform);
    operands_.push_back(std::move(operand));
  }
  flat_ = flat_ && run_rows_ > 1;
  for (size_t k = 0; flat_ && k < operands_.size(); ++k)
    if (epilogue.layouts_[k] == Layout::columns)
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
  if (epilogue_.stores_) {
    e.store = &BoundEpilogue::store_block;
  } else {
    e.callback = &BoundEpilogue::run_block;
  }
  e.context = this;
  return e;
}

void BoundEpilogue::run_block(void* self, int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
  const auto& e = *static_cast<const BoundEpilogue*>(self);
  e.run(e.c_ + (row0 * e.pitch_ + col0) * e.width_, e.pitch_ * e.width_, row0, rows, col0, cols);
}

void BoundEpilogue::store_block(void* self, const float* block, int64_t ld, int64_t row0, int64_t rows, int64_t col0,
                                int64_t cols) {
  constexpr auto width = static_cast<int64_t>(sizeof(float));
  static_cast<const BoundEpilogue*>(self)->run(reinterpret_cast<const std::byte*>(block), ld * width, row0, rows, col0,
                                               cols);
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
  // Rows of one loop follow each other: 1000 rows of 100 with a number each took 28 us by calls for each, of which 12
  // were sums.
  if (!flat && e.has_steps_ && rows > 0 && e.program_->is_one_loop(cols)) {
    int64_t steps[max_operands + 1] = {from_pitch};
    inputs[0] = from;
    outputs[0] = e.c_ + (row0 * e.pitch_ + col0) * e.width_;
    for (size_t k = 0; k < e.operands_.size(); ++k) {
      const Operand& operand = e.operands_[k];
      inputs[k + 1] = operand.data + (row0 * operand.row_stride + (operand.vector ? col0 : 0)) * operand.width;
      steps[k + 1] = operand.row_stride * operand.width;
    }
    steps[e.operands_.size() + 1] = e.pitch_ * e.width_;
    return e.program_->run_loops(cols, rows, inputs, outputs, steps);
  }
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
