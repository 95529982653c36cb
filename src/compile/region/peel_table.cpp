#include "compile/region/peel_table.h"

#include <algorithm>

#include "compile/region/epilogue_parts.h"

namespace camshaft {

namespace {

using Kind = ScalarInstruction::Kind;

}  // namespace

std::vector<TableOfSteps> peel_tables(const EpilogueView& view) {
  const ScalarProgram& program = view.program;
  std::vector<TableOfSteps> all;
  if (!is_byte(instruction_at(program, program.outputs[0]).dtype)) return all;
  for (int32_t i = program.outputs[0]; i-- > 0;) {
    const ScalarInstruction& steps = instruction_at(program, i);
    if (steps.kind != Kind::cast || !is_byte(steps.dtype)) continue;
    EpilogueView rest = rest_of(view, i, steps.dtype);
    const auto loads = std::count_if(rest.program.instructions.begin(), rest.program.instructions.end(),
                                     [](const ScalarInstruction& other) { return other.kind == Kind::load; });
    if (loads > 1) continue;
    TableOfSteps found{view, std::move(rest.program)};
    found.steps.program.instructions.resize(static_cast<size_t>(i) + 1);
    found.steps.program.outputs = {i};
    found.steps.result = steps.dtype;
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace camshaft
