#include "backends/cuda/codegen/scalar_text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <string_view>

#include "backends/cuda/codegen/rounded_steps.h"
#include "base/error.h"
#include "ir/ops/float8.h"

namespace camshaft::cuda {

namespace {

using Kind = ScalarInstruction::Kind;
using F = ScalarFunction;

bool is_real(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
         ops::is_float8(dtype);
}

bool is_unsigned(DType dtype) {
  return dtype == DType::u64 || dtype == DType::u32 || dtype == DType::u16 || dtype == DType::u8;
}

// C has functions of some of the names already.
std::string function_name(F function) {
  const std::string name(to_string(function));
  for (const std::string_view taken : {"abs", "round", "div", "fmod", "pow", "min", "max"})
    if (name == taken) return name + "_";
  return name;
}

// Bit by bit: decimal digits would round, and infinities have none.
std::string number(const ScalarInstruction& constant) {
  switch (constant.dtype) {
    case DType::f64:
      return fmt::format("__longlong_as_double({:#x}ll)", std::bit_cast<uint64_t>(constant.number));
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return fmt::format("__uint_as_float({:#x}u)", std::bit_cast<uint32_t>(static_cast<float>(constant.number)));
    case DType::boolean:
      return constant.number != 0 || constant.integer != 0 ? "i64(1)" : "i64(0)";
    default:
      return fmt::format("{}({:#x}ull)", computing_type(constant.dtype), static_cast<uint64_t>(constant.integer));
  }
}

// Of what is computed in f32: how the name of the function for such results ends.
std::string_view approximation(F function) {
  const bool has_one = function == F::exp || function == F::sigmoid || function == F::tanh || function == F::erf;
  return has_one ? "_rounded" : "";
}

// 1 / x where that is a normal number; 0 elsewhere.
float reciprocal_of(double x) {
  const double reciprocal = 1 / static_cast<double>(static_cast<float>(x));
  constexpr double least = 0x1p-126, largest = 0x1p126;
  return std::abs(reciprocal) >= least && std::abs(reciprocal) <= largest ? static_cast<float>(reciprocal) : 0.0F;
}

// Where there are several elements, what differs between them is an array.
std::string value(const ScalarProgram& program, int32_t instruction, bool of_several) {
  const bool differs = of_several && program.instructions[static_cast<size_t>(instruction)].kind != Kind::constant;
  return fmt::format("v{}{}", instruction, differs ? "[i]" : "");
}

// What is cast to `to`: integers, which are computed in 64 bits, in 32 where they have no more and a float of 32 is
// made of them. From 64 bits it takes an instruction of a quarter of the rate and more registers (64 -> 256 channels of
// ResNet-50 with residuals, batch 128 on an H200: 146 us, now 115).
std::string narrowed(const ScalarProgram& program, int32_t operand, DType to, const std::string& text) {
  const DType from = program.instructions[static_cast<size_t>(operand)].dtype;
  const bool is_byte_or_short = from == DType::i8 || from == DType::u8 || from == DType::i16 || from == DType::u16;
  const bool is_word = from == DType::i32 || from == DType::u32;
  // Halves are made of f32, which holds all of 16 bits.
  const bool fits =
      to == DType::f32 ? is_byte_or_short || is_word : (to == DType::f16 || to == DType::bf16) && is_byte_or_short;
  if (!fits) return text;
  return is_unsigned(from) ? fmt::format("__uint2float_rn(u32({}))", text)
                           : fmt::format("__int2float_rn(i32({}))", text);
}

}  // namespace

bool has_device_type(DType dtype) {
  switch (dtype) {
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::boolean:
      return true;
    default:
      return (is_real(dtype) && !ops::is_float8(dtype)) || is_unsigned(dtype);
  }
}

bool has_stored_type(DType dtype) {
  return has_device_type(dtype) || ops::is_float8(dtype);
}

std::string device_type(DType dtype) {
  if (!has_stored_type(dtype))
    throw Error(ErrorCode::unsupported, fmt::format("GPU kernels have no type {}", to_string(dtype)));
  return dtype == DType::boolean ? "boolean" : std::string(to_string(dtype));
}

std::string computing_type(DType dtype) {
  if (dtype == DType::f64) return "f64";
  if (is_real(dtype)) return "f32";
  return is_unsigned(dtype) ? "u64" : "i64";
}

namespace {

std::string expression(const ScalarProgram& program, const ScalarInstruction& instruction,
                       const std::function<std::string(int32_t)>& load, Accuracy accuracy, bool of_several) {
  const auto value_of = [&](int32_t operand) { return value(program, operand, of_several); };
  const std::string type = device_type(instruction.dtype);
  switch (instruction.kind) {
    case Kind::load:
      return fmt::format("widen({})", load(instruction.a));
    case Kind::constant:
      return number(instruction);
    case Kind::cast: {
      if (const auto steps = instruction.dtype == DType::f32 ? rounded_steps(program, instruction.a) : std::nullopt) {
        // Through 64 bits, as integers are computed in, conversions would take four times as long.
        const DType bytes = program.instructions[static_cast<size_t>(instruction.a)].dtype;
        return fmt::format("rounded_step<{}>({}, {})", device_type(bytes), value_of(steps->value), steps->zero);
      }
      return fmt::format("widen(Narrow<{}>::from({}))", type,
                         narrowed(program, instruction.a, instruction.dtype, value_of(instruction.a)));
    }
    case Kind::apply:
      break;
  }
  const bool is_f32 = accuracy != Accuracy::full && computing_type(instruction.dtype) == "f32";
  if (is_f32 && instruction.function == F::div) {
    const ScalarInstruction& divisor = program.instructions[static_cast<size_t>(instruction.b)];
    const float reciprocal = divisor.kind == Kind::constant && is_real(divisor.dtype) && divisor.dtype != DType::f64
                                 ? reciprocal_of(divisor.number)
                                 : 0.0F;
    if (reciprocal != 0)
      return fmt::format("mul({}, __uint_as_float({:#x}u))", value_of(instruction.a),
                         std::bit_cast<uint32_t>(reciprocal));
  }
  const std::string_view ending = is_f32 ? approximation(instruction.function) : std::string_view();
  const std::string name = ending.empty() ? function_name(instruction.function)
                                          : std::string(to_string(instruction.function)).append(ending);
  std::string text = fmt::format("{}({}", name, value_of(instruction.a));
  if (arity(instruction.function) > 1) text += ", " + value_of(instruction.b);
  if (arity(instruction.function) > 2) text += ", " + value_of(instruction.c);
  text += ")";
  // Narrow integers wrap; narrow floats keep what f32 gives them until they are stored.
  const bool wraps = !is_real(instruction.dtype) && instruction.dtype != DType::boolean &&
                     instruction.dtype != DType::i64 && instruction.dtype != DType::u64;
  return wraps ? fmt::format("widen(Narrow<{}>::from({}))", type, text) : text;
}

}  // namespace

std::string scalar_statements(const ScalarProgram& program, const std::function<std::string(int32_t)>& load,
                              const std::string& indent, Accuracy accuracy) {
  std::string text;
  for (size_t n = 0; n < program.instructions.size(); ++n) {
    const ScalarInstruction& instruction = program.instructions[n];
    text += fmt::format("{}const {} v{} = {};\n", indent, computing_type(instruction.dtype), n,
                        expression(program, instruction, load, accuracy, false));
  }
  return text;
}

std::string statements_of_several(const ScalarProgram& program, const std::function<std::string(int32_t)>& load,
                                  const std::string& indent, Accuracy accuracy, int count) {
  std::string text;
  for (size_t n = 0; n < program.instructions.size(); ++n) {
    const ScalarInstruction& instruction = program.instructions[n];
    const std::string type = computing_type(instruction.dtype),
                      what = expression(program, instruction, load, accuracy, true);
    if (instruction.kind == Kind::constant)
      text += fmt::format("{}const {} v{} = {};\n", indent, type, n, what);
    else
      text += fmt::format("{0}{1} v{2}[{3}];\n#pragma unroll\n{0}for (int i = 0; i < {3}; ++i) v{2}[i] = {4};\n",
                          indent, type, n, count, what);
  }
  return text;
}

std::string value_of_several(const ScalarProgram& program, int32_t instruction) {
  return value(program, instruction, true);
}

std::optional<int32_t> unrounded_float8(const ScalarProgram& program, size_t o) {
  const auto at = [&](int32_t n) -> const ScalarInstruction& { return program.instructions[static_cast<size_t>(n)]; };
  const ScalarInstruction& last = at(program.outputs.at(o));
  const bool is_rounded = last.kind == Kind::cast && ops::is_float8(last.dtype);
  return is_rounded && computing_type(at(last.a).dtype) == "f32" ? std::optional(last.a) : std::nullopt;
}

std::string scalar_result(const ScalarProgram& program, size_t o, DType dtype) {
  const int32_t result = program.outputs.at(o);
  return fmt::format("Narrow<{}>::from(v{})", device_type(dtype), unrounded_float8(program, o).value_or(result));
}

}  // namespace camshaft::cuda
