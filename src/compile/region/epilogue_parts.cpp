#include "compile/region/epilogue_parts.h"

namespace camshaft {

namespace {

using Kind = ScalarInstruction::Kind;

}  // namespace

const ScalarInstruction& instruction_at(const ScalarProgram& program, int32_t i) {
  return program.instructions[static_cast<size_t>(i)];
}

int32_t sole_reader(const ScalarProgram& program, int32_t i) {
  int32_t found = -1;
  for (size_t n = 0; n < program.instructions.size(); ++n) {
    const ScalarInstruction& instruction = program.instructions[n];
    if (instruction.kind == Kind::load || instruction.kind == Kind::constant) continue;
    for (const int32_t operand : {instruction.a, instruction.b, instruction.c}) {
      if (operand != i) continue;
      if (found >= 0) return -1;
      found = static_cast<int32_t>(n);
    }
  }
  return program.outputs[0] == i ? -1 : found;
}

const ScalarInstruction* beside(const ScalarProgram& program, int32_t reader, int32_t i, ScalarFunction function) {
  if (reader < 0) return nullptr;
  const ScalarInstruction& instruction = instruction_at(program, reader);
  if (instruction.kind != Kind::apply || instruction.function != function || instruction.dtype != DType::f32)
    return nullptr;
  return &instruction_at(program, instruction.a == i ? instruction.b : instruction.a);
}

EpilogueView rest_of(const EpilogueView& view, int32_t done, DType type) {
  const ScalarProgram& program = view.program;
  std::vector<bool> needed(program.instructions.size(), false);
  needed[static_cast<size_t>(program.outputs[0])] = true;
  for (auto i = static_cast<int32_t>(needed.size()); i-- > 0;) {
    const ScalarInstruction& instruction = instruction_at(program, i);
    if (!needed[static_cast<size_t>(i)] || i == done || instruction.kind == Kind::load ||
        instruction.kind == Kind::constant)
      continue;
    for (const int32_t operand : {instruction.a, instruction.b, instruction.c})
      if (operand >= 0) needed[static_cast<size_t>(operand)] = true;
  }
  EpilogueView rest;
  rest.result = view.result;
  rest.norm = view.norm;
  rest.gives_moments = view.gives_moments;
  rest.program.instructions.push_back({.kind = Kind::load, .dtype = type, .a = 0});
  std::vector<int32_t> renumbered(needed.size(), -1), inputs(view.loads.size(), -1);
  renumbered[static_cast<size_t>(done)] = 0;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i] || static_cast<int32_t>(i) == done) continue;
    ScalarInstruction instruction = program.instructions[i];
    if (instruction.kind == Kind::load && instruction.a > 0) {
      const auto load = static_cast<size_t>(instruction.a) - 1;
      if (inputs[load] < 0) {
        rest.loads.push_back(view.loads[load]);
        rest.types.push_back(view.types[load]);
        rest.layouts.push_back(view.layouts[load]);
        rest.constant.push_back(view.constant[load]);
        rest.most.push_back(view.most[load]);
        inputs[load] = static_cast<int32_t>(rest.loads.size());
      }
      instruction.a = inputs[load];
    } else if (instruction.kind == Kind::apply || instruction.kind == Kind::cast) {
      for (int32_t* operand : {&instruction.a, &instruction.b, &instruction.c})
        if (*operand >= 0) *operand = renumbered[static_cast<size_t>(*operand)];
    }
    renumbered[i] = static_cast<int32_t>(rest.program.instructions.size());
    rest.program.instructions.push_back(instruction);
  }
  rest.program.inputs = static_cast<int>(rest.loads.size()) + 1;
  rest.program.outputs = {renumbered[static_cast<size_t>(program.outputs[0])]};
  return rest;
}

}  // namespace camshaft
