#include "compile/region/scalar_program.h"

#include <fmt/format.h>

#include <iterator>

namespace camshaft {

std::string to_string(const ScalarProgram& program) {
  std::string text;
  auto out = std::back_inserter(text);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const ScalarInstruction& instruction = program.instructions[i];
    fmt::format_to(out, "%{}:{} = ", i, to_string(instruction.dtype));
    switch (instruction.kind) {
      case ScalarInstruction::Kind::load:
        fmt::format_to(out, "load {}", instruction.a);
        break;
      case ScalarInstruction::Kind::constant:
        // {} of a double is the shortest text that reads back to the same value.
        if (is_integer(instruction.dtype)) {
          fmt::format_to(out, "constant {}", instruction.integer);
        } else {
          fmt::format_to(out, "constant {}", instruction.number);
        }
        break;
      case ScalarInstruction::Kind::apply:
        fmt::format_to(out, "{}", to_string(instruction.function));
        for (int32_t operand : {instruction.a, instruction.b, instruction.c}) {
          if (operand >= 0) fmt::format_to(out, " %{}", operand);
        }
        break;
      case ScalarInstruction::Kind::cast:
        fmt::format_to(out, "cast %{}", instruction.a);
        break;
    }
    text += '\n';
  }
  text += "return";
  for (int32_t output : program.outputs) fmt::format_to(out, " %{}", output);
  text += '\n';
  return text;
}

}  // namespace camshaft
