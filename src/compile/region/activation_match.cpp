#include "compile/region/activation_match.h"

namespace camshaft {

namespace {

using Kind = ScalarInstruction::Kind;

size_t at(int32_t i) {
  return static_cast<size_t>(i);
}

bool has_operands(const ScalarInstruction& instruction) {
  return instruction.kind == Kind::apply || instruction.kind == Kind::cast;
}

bool is_taken(DType dtype, bool narrow_types) {
  return dtype == DType::f32 || (narrow_types && (dtype == DType::f16 || dtype == DType::bf16));
}

// What each instruction is as a function of x.
std::vector<FunctionOfX> functions_of(const ScalarProgram& program, int32_t x, const ActivationWanted& wanted) {
  std::vector<FunctionOfX> functions(program.instructions.size());
  for (size_t i = 0; i < functions.size(); ++i) {
    const ScalarInstruction& instruction = program.instructions[i];
    const auto operand = [&](int32_t id) { return id < 0 ? FunctionOfX() : functions[at(id)]; };
    const bool taken = is_taken(instruction.dtype, wanted.narrow_types);
    if (static_cast<int32_t>(i) == x) {
      functions[i] = FunctionOfX::identity();
    } else if (instruction.kind == Kind::constant) {
      if (taken) functions[i] = FunctionOfX::number(instruction.number);
    } else if (instruction.kind == Kind::load) {
      const auto number =
          instruction.dtype == DType::f32 && wanted.number_of ? wanted.number_of(instruction.a) : std::nullopt;
      if (number) functions[i] = FunctionOfX::number(*number);
    } else if (instruction.kind == Kind::cast) {
      if (taken && wanted.narrow_types) functions[i] = operand(instruction.a);
    } else if (taken || instruction.dtype == DType::boolean) {
      functions[i] = FunctionOfX::apply(instruction.function, operand(instruction.a), operand(instruction.b),
                                        operand(instruction.c));
    }
  }
  return functions;
}

}  // namespace

std::vector<bool> made_of(const ScalarProgram& program, int32_t x) {
  std::vector<bool> of_x(program.instructions.size(), false);
  of_x[at(x)] = true;
  for (size_t i = at(x) + 1; i < of_x.size(); ++i) {
    const ScalarInstruction& instruction = program.instructions[i];
    if (!has_operands(instruction)) continue;
    for (const int32_t operand : {instruction.a, instruction.b, instruction.c})
      if (operand >= 0 && of_x[at(operand)]) of_x[i] = true;
  }
  return of_x;
}

bool is_alone(const ScalarProgram& program, const std::vector<bool>& of_x, int32_t x, int32_t result) {
  std::vector<bool> inside(program.instructions.size(), false);
  inside[at(result)] = true;
  for (int32_t i = result; i > x; --i) {
    const ScalarInstruction& instruction = program.instructions[at(i)];
    if (!inside[at(i)] || !has_operands(instruction)) continue;
    for (const int32_t operand : {instruction.a, instruction.b, instruction.c})
      if (operand >= 0 && of_x[at(operand)]) inside[at(operand)] = true;
  }
  for (size_t i = 0; i < inside.size(); ++i) {
    const ScalarInstruction& instruction = program.instructions[i];
    if (inside[i] || !has_operands(instruction)) continue;
    for (const int32_t operand : {instruction.a, instruction.b, instruction.c})
      if (operand >= 0 && operand != result && inside[at(operand)]) return false;
  }
  for (const int32_t output : program.outputs)
    if (output != result && inside[at(output)]) return false;
  return true;
}

std::optional<ActivationMatch> match_activation(const ScalarProgram& program, int32_t x,
                                                const ActivationWanted& wanted) {
  const std::vector<FunctionOfX> functions = functions_of(program, x, wanted);
  const std::vector<bool> of_x = made_of(program, x);
  for (auto result = static_cast<int32_t>(functions.size()) - 1; result > x; --result) {
    if (!of_x[at(result)] || !is_taken(program.instructions[at(result)].dtype, wanted.narrow_types)) continue;
    const auto function = functions[at(result)].activation();
    if (function && wanted.takes(*function) && is_alone(program, of_x, x, result))
      return ActivationMatch{*function, result};
  }
  return std::nullopt;
}

}  // namespace camshaft
