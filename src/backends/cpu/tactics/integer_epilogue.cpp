#include "backends/cpu/tactics/integer_epilogue.h"

#include <algorithm>
#include <cmath>

namespace camshaft::cpu {

namespace {

using Kind = ScalarInstruction::Kind;

// Walks along what is done with the sums, one reader after the other.
class Chain {
 public:
  explicit Chain(const ScalarProgram& program) : program_(program) {}

  const ScalarInstruction& at(int32_t i) const { return program_.instructions[static_cast<size_t>(i)]; }
  bool is_result(int32_t i) const { return program_.outputs[0] == i; }

  // The one instruction that reads i, if there is just one and i is not the result; or -1.
  int32_t reader(int32_t i) const {
    int32_t found = -1;
    for (size_t n = 0; n < program_.instructions.size(); ++n) {
      const ScalarInstruction& instruction = program_.instructions[n];
      if (instruction.kind == Kind::load || instruction.kind == Kind::constant) continue;
      for (const int32_t operand : {instruction.a, instruction.b, instruction.c}) {
        if (operand != i) continue;
        if (found >= 0) return -1;
        found = static_cast<int32_t>(n);
      }
    }
    return is_result(i) ? -1 : found;
  }
  int32_t cast(int32_t i, DType from, DType to) const {
    const int32_t next = reader(i);
    return next >= 0 && at(i).dtype == from && at(next).kind == Kind::cast && at(next).dtype == to ? next : -1;
  }
  int32_t apply(int32_t i, ScalarFunction function) const {
    const int32_t next = reader(i);
    const bool fits = next >= 0 && at(next).kind == Kind::apply && at(next).function == function;
    return fits && at(next).dtype == DType::f32 ? next : -1;
  }
  const ScalarInstruction& other_operand(int32_t next, int32_t i) const {
    return at(at(next).a == i ? at(next).b : at(next).a);
  }

 private:
  const ScalarProgram& program_;
};

}  // namespace

std::optional<IntegerEpilogue> IntegerEpilogue::make(const RegionView& region, const ContractView& view) {
  IntegerEpilogue e;
  if (!view.epilogue) return e;
  const ScalarProgram& program = *view.epilogue;
  if (program.outputs.size() != 1) return std::nullopt;
  const Chain chain(program);
  int32_t sums = -1;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const ScalarInstruction& load = program.instructions[i];
    if (load.kind == Kind::load && view.epilogue_loads[static_cast<size_t>(load.a)] < 0) sums = static_cast<int32_t>(i);
  }
  if (sums < 0) return std::nullopt;

  // One number, or one a column.
  const auto operand = [&](const ScalarInstruction& i) -> std::optional<Operand> {
    if (i.kind == Kind::constant) return Operand{-1, static_cast<float>(i.number)};
    if (i.kind != Kind::load || i.dtype != DType::f32) return std::nullopt;
    const int32_t input = view.epilogue_loads[static_cast<size_t>(i.a)];
    if (input < 0) return std::nullopt;
    const OperandLayout layout =
        layout_of(region.graph.shape(region.node.inputs[static_cast<size_t>(input)]), view.result.shape);
    if (layout != OperandLayout::scalar && layout != OperandLayout::columns) return std::nullopt;
    return Operand{input, 0};
  };
  const auto programmed = [&]() -> std::optional<IntegerEpilogue> {
    e.rest_ = ContractEpilogue::make(region, view, -1);
    return e.rest_ ? std::optional(e) : std::nullopt;
  };

  const int32_t number = chain.cast(sums, DType::i32, DType::f32);
  const int32_t scaled = number < 0 ? -1 : chain.apply(number, ScalarFunction::mul);
  if (scaled < 0) return programmed();
  const std::optional<Operand> scale = operand(chain.other_operand(scaled, number));
  if (!scale) return programmed();
  e.scale_ = *scale;

  int32_t step = chain.apply(scaled, ScalarFunction::round);
  if (step >= 0) {
    if (const int32_t moved = chain.apply(step, ScalarFunction::add); moved >= 0) {
      const ScalarInstruction& zero = chain.other_operand(moved, step);
      constexpr double most = 1024;  // beyond all that 8 bits hold; no zero point is
      if (zero.kind != Kind::constant || std::abs(zero.number) > most || zero.number != std::trunc(zero.number))
        return programmed();
      e.zero_ = static_cast<int32_t>(zero.number);
      step = moved;
    }
    const int32_t last = chain.reader(step);
    const bool is_cast = last >= 0 && chain.is_result(last) && chain.at(last).kind == Kind::cast;
    if (!is_cast || (chain.at(last).dtype != DType::u8 && chain.at(last).dtype != DType::i8)) return programmed();
    e.result_ = Int8Result::steps;
    e.is_signed_ = chain.at(last).dtype == DType::i8;
    return e;
  }

  if (region.graph.type(region.node.outputs[0]).dtype != DType::f32) return programmed();
  // What follows the scale sees a product of f32.
  ContractView behind = view;
  behind.result.dtype = DType::f32;
  ScalarInstruction load = chain.at(sums);
  load.dtype = DType::f32;
  behind.epilogue->instructions[static_cast<size_t>(scaled)] = load;
  e.rest_ = ContractEpilogue::make(region, behind, -1, 1 + kMoreResiduals);
  if (!e.rest_) return programmed();
  e.result_ = Int8Result::scaled;
  return e;
}

bool IntegerEpilogue::reads(size_t i) const {
  const auto input = static_cast<int32_t>(i);
  return input == scale_.input || (rest_ && rest_->reads(i));
}

BoundIntegerEpilogue::BoundIntegerEpilogue(const IntegerEpilogue& epilogue, const KernelShapes& shapes, int64_t columns)
    : epilogue_(epilogue), ldc_(shapes.outputs[0].pitch()) {
  if (epilogue.rest_) rest_.emplace(*epilogue.rest_, shapes, columns);
  if (epilogue.result_ == Int8Result::sums) return;
  scale_.resize(static_cast<size_t>(columns + packed_layout(1, columns).width), epilogue.scale_.number);
  if (epilogue.scale_.input >= 0)
    one_scale_ = element_count(shapes.inputs[static_cast<size_t>(epilogue.scale_.input)].dims) == 1;
}

void BoundIntegerEpilogue::bind(const LaunchArguments& arguments, Int8Problem& problem) {
  const auto floats = [&](int32_t input) {
    return reinterpret_cast<const float*>(arguments.inputs[static_cast<size_t>(input)]);
  };
  const IntegerEpilogue& e = epilogue_;
  problem.result = e.result_;
  problem.c = arguments.outputs[0];
  problem.ldc = ldc_;
  if (rest_) problem.epilogue = rest_->bind(arguments, arguments.outputs[0]);
  if (e.gives_blocks()) {
    problem.c = nullptr;
    problem.finish = &BoundEpilogue::run_sums;
    problem.finish_context = &*rest_;
  }
  if (e.result_ == Int8Result::sums) return;
  if (e.scale_.input >= 0) {
    const float* scale = floats(e.scale_.input);
    const auto columns = static_cast<int64_t>(scale_.size()) - packed_layout(1, 1).width;
    if (one_scale_) {
      std::fill(scale_.begin(), scale_.end(), scale[0]);
    } else {
      std::copy_n(scale, columns, scale_.begin());
    }
  }
  problem.scale = scale_.data();
  problem.zero = e.zero_;
  problem.is_signed = e.is_signed_;
}

}  // namespace camshaft::cpu
