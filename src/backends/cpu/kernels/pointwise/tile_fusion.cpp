#include "backends/cpu/kernels/pointwise/tile_fusion.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "backends/cpu/kernels/half.h"
#include "ir/activation.h"

namespace camshaft::cpu {
namespace {

using F = ScalarFunction;
using Kind = TileNode::Kind;

DType register_type(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

uint64_t constant_bits(const ScalarInstruction& instruction) {
  uint64_t bits = 0;
  switch (instruction.dtype) {
    case DType::f64:
      return std::bit_cast<uint64_t>(instruction.number);
    case DType::f16:
      return std::bit_cast<uint32_t>(to_float(to_half(static_cast<float>(instruction.number))));
    case DType::bf16:
      return std::bit_cast<uint32_t>(to_float(to_bfloat(static_cast<float>(instruction.number))));
    case DType::f32:
      return std::bit_cast<uint32_t>(static_cast<float>(instruction.number));
    case DType::boolean:
      return instruction.number != 0 || instruction.integer != 0;
    default:
      // Little endian: the low bytes are the narrower integer's.
      std::memcpy(&bits, &instruction.integer, sizeof(bits));
      return bits;
  }
}

struct Lowering {
  TileNodes result;

  int32_t add(TileNode node) {
    bool uniform = true;
    for (int k = 0; k < node.operands; ++k) uniform &= result.nodes[node.in[k]].uniform;
    if (node.kind == Kind::apply) node.uniform = uniform;
    result.nodes.push_back(node);
    return static_cast<int32_t>(result.nodes.size()) - 1;
  }

  int32_t convert(int32_t value, DType to) {
    const DType from = result.nodes[value].dtype;
    if (from == to) return value;
    TileNode node;
    node.dtype = to;
    node.operands = 1;
    node.in[0] = value;
    node.kernel = find_conversion(from, to);
    return add(node);
  }

  // To f32, which is rounded to a narrower type next.
  int32_t convert_to_round(int32_t value) {
    TileNode node;
    node.operands = 1;
    node.in[0] = value;
    node.kernel = find_odd_conversion(result.nodes[value].dtype);
    return node.kernel ? add(node) : convert(value, DType::f32);
  }

  int32_t round_through(int32_t value, DType narrow) {
    TileNode node;
    node.operands = 1;
    node.in[0] = value;
    node.fused = narrow == DType::f16 ? FusedFunction::round_to_f16 : FusedFunction::round_to_bf16;
    node.kernel = find_kernel(node.fused);
    node.cost = 2;
    return add(node);
  }
};

bool is(const TileNode& node, F function) {
  return node.is_function && node.function == function;
}

// The rules. Each looks at one node and its operands; an operand may be swallowed when nothing else uses it.
class Fusion {
 public:
  explicit Fusion(TileNodes& program) : nodes_(program.nodes), uses_(program.nodes.size(), 0) {
    for (const TileNode& node : nodes_) {
      for (int k = 0; k < node.operands; ++k) ++uses_[node.in[k]];
    }
    for (int32_t output : program.outputs) ++uses_[output];
    for (size_t k = 0; k < program.outputs.size(); ++k)
      if (program.stored[k] == DType::f16 && uses_[program.outputs[k]] == 1) stored_halves_.insert(program.outputs[k]);
  }

  void run() {
    // Activations first: their insides are read as they were written, before squares and sums of products are loops.
    for (TileNode& node : nodes_)
      if (is_fusible(node)) activation(node) || leaky_relu(node) || above_or_zero(node) || softsign(node);
    for (TileNode& node : nodes_) {
      if (quantize(node)) {
        combine_bytes(node);
        continue;
      }
      if (function_of_half(node) || plain_clamp(node) || cube(node) || multiply_add_f64(node)) continue;
      if (!is_fusible(node)) continue;
      simple_power(node) || exp_distance(node) || dequantize(node) || scale_integers(node) || square(node) ||
          clamp(node) || add_relu(node) || min_max_number(node) || multiply_add(node);
    }
  }

 private:
  static bool is_fusible(const TileNode& node) { return node.is_function && node.dtype == DType::f32 && !node.uniform; }
  bool constant(int32_t value, float& number) const {
    const TileNode& node = nodes_[value];
    if (node.kind != Kind::constant || node.dtype != DType::f32) return false;
    number = std::bit_cast<float>(static_cast<uint32_t>(node.bits));
    return true;
  }
  bool is_number(int32_t value) const {
    float number = 0;
    return constant(value, number) && !std::isnan(number);
  }
  bool single(int32_t value) const { return uses_[value] == 1 && nodes_[value].kind == Kind::apply; }

  void become(TileNode& node, FusedFunction function, int32_t a, int32_t b = -1, int32_t c = -1, int cost = 1) {
    std::vector<int32_t> operands{a};
    if (b >= 0) operands.push_back(b);
    if (c >= 0) operands.push_back(c);
    become(node, function, operands, cost);
  }
  void become(TileNode& node, FusedFunction function, const std::vector<int32_t>& operands, int cost) {
    become(node, function, find_kernel(function), operands, cost);
  }
  void become(TileNode& node, FusedFunction function, TileKernel kernel, const std::vector<int32_t>& operands,
              int cost) {
    const std::vector<int32_t> old(node.in, node.in + node.operands);
    std::ranges::fill(node.in, -1);
    std::ranges::copy(operands, node.in);
    node.operands = static_cast<int>(operands.size());
    for (const int32_t value : operands) ++uses_[value];
    for (const int32_t value : old) release(value);
    node.is_function = false;
    node.fused = function;
    node.kernel = kernel;
    node.cost = cost;
  }
  void release(int32_t value) {
    if (--uses_[value] > 0) return;
    for (int k = 0; k < nodes_[value].operands; ++k) release(nodes_[value].in[k]);
  }

  // x^2, x^0.5, 1/x: an order of magnitude cheaper than pow, and as exact or more.
  bool simple_power(TileNode& node) {
    float exponent = 0;
    if (!is(node, F::pow) || !constant(node.in[1], exponent)) return false;
    const int32_t base = node.in[0];
    if (exponent == 2) {
      become(node, FusedFunction::square, base);
      return true;
    }
    // pow(-inf, 0.5) is +inf and pow(-0, 0.5) +0 where sqrt has NaN and -0; no model depends on either.
    const F function = exponent == 0.5f ? F::sqrt : exponent == -1 ? F::reciprocal : F::pow;
    if (function == F::pow) return false;
    release(node.in[1]);
    node.function = function;
    node.operands = 1;
    node.in[1] = -1;
    node.kernel = find_kernel(function, DType::f32);
    node.cost = tile_cost(function, DType::f32);
    return true;
  }

  // ReduceLogSumExp of integers: 10^5 of i32 took 34 us in five loops.
  bool exp_distance(TileNode& node) {
    if (!is(node, F::exp) || !single(node.in[0]) || !is(nodes_[node.in[0]], F::neg)) return false;
    const int32_t number = nodes_[node.in[0]].in[0];
    for (const auto& [wide, sign] : {std::pair{DType::u32, DType::i32}, std::pair{DType::u64, DType::i64}}) {
      if (!single(number) || !converts(nodes_[number], wide)) continue;
      int32_t distance = nodes_[number].in[0];
      if (single(distance) && converts(nodes_[distance], sign)) distance = nodes_[distance].in[0];
      const TileNode& difference = nodes_[distance];
      if (!single(distance) || !is(difference, F::sub) || difference.uniform) return false;
      become(node, wide == DType::u32 ? FusedFunction::exp_distance_32 : FusedFunction::exp_distance_64,
             difference.in[0], difference.in[1], -1, tile_cost(F::exp, DType::f32));
      return true;
    }
    return false;
  }

  static FusedFunction quantization_to(DType dtype) {
    switch (dtype) {
      case DType::u8:
        return FusedFunction::quantize_u8;
      case DType::i8:
        return FusedFunction::quantize_i8;
      case DType::u16:
        return FusedFunction::quantize_u16;
      case DType::i16:
        return FusedFunction::quantize_i16;
      default:
        return FusedFunction::none;
    }
  }
  // A conversion, which is neither a function nor fused.
  bool converts(const TileNode& node, DType from) const {
    return node.kind == Kind::apply && !node.is_function && node.fused == FusedFunction::none && node.operands == 1 &&
           nodes_[node.in[0]].dtype == from;
  }

  // What QuantizeLinear is made of: QLinearAdd of 10^5 elements took 33 us as ten loops.
  bool quantize(TileNode& node) {
    const FusedFunction function = quantization_to(node.dtype);
    if (node.uniform || function == FusedFunction::none || !converts(node, DType::f32) || !single(node.in[0]))
      return false;
    // A zero point of 0 is not added at all: QuantizeLinear of 10^5 elements by rows took three loops.
    if (const int32_t quotient = rounded_quotient(node.in[0]); quotient >= 0) {
      become(node, steps_to(function), nodes_[quotient].in[0], nodes_[quotient].in[1], -1, 4);
      return true;
    }
    const TileNode& sum = nodes_[node.in[0]];
    if (!is(sum, F::add)) return false;
    for (int k = 0; k < 2; ++k) {
      const int32_t quotient = rounded_quotient(sum.in[k]), zero = sum.in[1 - k];
      if (quotient < 0) continue;
      const int32_t x = nodes_[quotient].in[0], scale = nodes_[quotient].in[1];
      become(node, function, x, scale, zero, 5);
      return true;
    }
    return false;
  }

  // What the bits of a half tell, or change alone. Nobody else may read it as f32.
  bool function_of_half(TileNode& node) {
    if (!node.is_function || node.uniform || node.operands != 1) return false;
    const auto half_of = [&](int32_t value) {
      return single(value) && converts(nodes_[value], DType::f16) ? nodes_[value].in[0] : -1;
    };
    const int32_t operand = node.in[0], half = half_of(operand);
    if (node.dtype == DType::boolean) {
      const bool is_magnitude = single(operand) && is(nodes_[operand], F::abs);
      const int32_t inside = is_magnitude ? half_of(nodes_[operand].in[0]) : -1;
      const FusedFunction test = half_test(node.function, inside >= 0);
      if (test == FusedFunction::none || (half < 0 && inside < 0)) return false;
      become(node, test, inside >= 0 ? inside : half);
      return true;
    }
    const FusedFunction function = is(node, F::abs)    ? FusedFunction::abs_f16
                                   : is(node, F::neg)  ? FusedFunction::neg_f16
                                   : is(node, F::sign) ? FusedFunction::sign_f16
                                                       : FusedFunction::none;
    if (half < 0 || function == FusedFunction::none || !stored_halves_.contains(index_of(node))) return false;
    become(node, function, half);
    node.dtype = DType::f16;
    return true;
  }

  static FusedFunction half_test(F function, bool of_magnitude) {
    switch (function) {
      case F::is_nan:
        return FusedFunction::is_nan_f16;
      case F::is_inf_pos:
        return of_magnitude ? FusedFunction::is_inf_f16 : FusedFunction::is_inf_pos_f16;
      case F::is_inf_neg:
        return of_magnitude ? FusedFunction::none : FusedFunction::is_inf_neg_f16;
      default:
        return FusedFunction::none;
    }
  }

  // The division that `rounded` rounds and nobody else sees, or -1.
  int32_t rounded_quotient(int32_t rounded) const {
    if (!single(rounded) || !is(nodes_[rounded], F::round) || nodes_[rounded].uniform) return -1;
    const int32_t quotient = nodes_[rounded].in[0];
    const bool is_hidden = single(quotient) && is(nodes_[quotient], F::div) && nodes_[quotient].dtype == DType::f32;
    return is_hidden ? quotient : -1;
  }

  // The same without a zero point.
  static FusedFunction steps_to(FusedFunction quantization) {
    switch (quantization) {
      case FusedFunction::quantize_u8:
        return FusedFunction::steps_u8;
      case FusedFunction::quantize_i8:
        return FusedFunction::steps_i8;
      case FusedFunction::quantize_u16:
        return FusedFunction::steps_u16;
      default:
        return FusedFunction::steps_i16;
    }
  }

  // And DequantizeLinear.
  bool dequantize(TileNode& node) {
    if (!is(node, F::mul)) return false;
    for (int k = 0; k < 2; ++k) {
      const int32_t difference = node.in[k], scale = node.in[1 - k];
      if (!single(difference) || !is(nodes_[difference], F::sub) || nodes_[difference].uniform) continue;
      const int32_t wide = nodes_[difference].in[0], zero = nodes_[difference].in[1];
      if (!single(wide) || nodes_[wide].uniform) continue;
      for (const DType from : {DType::u8, DType::i8, DType::u16, DType::i16}) {
        if (!converts(nodes_[wide], from)) continue;
        become(node, dequantization_of(from), nodes_[wide].in[0], zero, scale, 3);
        return true;
      }
    }
    return false;
  }

  // The same with a zero point of 0, which is not subtracted at all. Rows of 49 elements with a scale each took two
  // loops, for which the scales were repeated.
  bool scale_integers(TileNode& node) {
    if (!is(node, F::mul)) return false;
    for (int k = 0; k < 2; ++k) {
      const int32_t wide = node.in[k];
      if (!single(wide) || nodes_[wide].uniform) continue;
      for (const DType from : {DType::u8, DType::i8, DType::u16, DType::i16, DType::i32}) {
        if (!converts(nodes_[wide], from)) continue;
        become(node, scaling_of(from), nodes_[wide].in[0], node.in[1 - k], -1, 2);
        return true;
      }
    }
    return false;
  }

  static FusedFunction scaling_of(DType from) {
    switch (from) {
      case DType::u8:
        return FusedFunction::scale_u8;
      case DType::i8:
        return FusedFunction::scale_i8;
      case DType::u16:
        return FusedFunction::scale_u16;
      case DType::i16:
        return FusedFunction::scale_i16;
      default:
        return FusedFunction::scale_i32;
    }
  }

  static FusedFunction dequantization_of(DType from) {
    switch (from) {
      case DType::u8:
        return FusedFunction::dequantize_u8;
      case DType::i8:
        return FusedFunction::dequantize_i8;
      case DType::u16:
        return FusedFunction::dequantize_u16;
      default:
        return FusedFunction::dequantize_i16;
    }
  }

  // QLinearAdd and QLinearMul, and the sum between Dequantize and Quantize.
  bool combine_bytes(TileNode& node) {
    const TileNode& value = nodes_[node.in[0]];
    const bool adds = is(value, F::add);
    if (!single(node.in[0]) || (!adds && !is(value, F::mul))) return false;
    const bool is_signed = node.dtype == DType::i8;
    const FusedFunction from = is_signed ? FusedFunction::dequantize_i8 : FusedFunction::dequantize_u8;
    if (!is_signed && node.dtype != DType::u8) return false;
    std::vector<int32_t> operands;
    for (int k = 0; k < 2; ++k) {
      const TileNode& operand = nodes_[value.in[k]];
      const bool is_hidden = single(value.in[k]) && operand.fused == from;
      if (!is_hidden || !nodes_[operand.in[1]].uniform || !nodes_[operand.in[2]].uniform) return false;
      operands.insert(operands.end(), operand.in, operand.in + 3);
    }
    operands.insert(operands.end(), node.in + 1, node.in + node.operands);
    for (int k = 1; k < node.operands; ++k)
      if (!nodes_[node.in[k]].uniform) return false;
    const FusedFunction sums = is_signed ? FusedFunction::add_bytes_i8 : FusedFunction::add_bytes_u8;
    const FusedFunction products = is_signed ? FusedFunction::multiply_bytes_i8 : FusedFunction::multiply_bytes_u8;
    become(node, adds ? sums : products, operands, 8);
    return true;
  }

  bool square(TileNode& node) {
    if (!is(node, F::mul) || node.in[0] != node.in[1]) return false;
    become(node, FusedFunction::square, node.in[0]);
    return true;
  }

  // Of f64: 10^7 took 5 ms in two loops, in one 3.8.
  bool cube(TileNode& node) {
    if (!is(node, F::mul) || node.uniform || node.dtype != DType::f64) return false;
    for (int k = 0; k < 2; ++k) {
      const int32_t inner = node.in[k], x = node.in[1 - k];
      const TileNode& by = nodes_[inner];
      if (!single(inner) || !is(by, F::mul) || by.in[0] != x || by.in[1] != x) continue;
      become(node, FusedFunction::cube, x);
      return true;
    }
    return false;
  }

  static FusedFunction fused_activation(KnownActivation activation) {
    switch (activation) {
      case KnownActivation::silu:
        return FusedFunction::silu;
      case KnownActivation::gelu:
        return FusedFunction::gelu;
      case KnownActivation::gelu_by_tanh:
        return FusedFunction::gelu_by_tanh;
      default:
        return FusedFunction::none;
    }
  }

  // Steps that are together one of the activations with a loop of its own, and of which nobody sees the inside.
  bool activation(TileNode& node) {
    if (!is(node, F::mul) && !is(node, F::div)) return false;
    const int32_t root = index_of(node);
    const std::vector<int32_t> steps = steps_before(root, -1);
    for (const int32_t x : steps) {
      if (x == root) continue;
      const auto function = function_of(steps, x).activation();
      const auto known = function ? known_activation(*function) : std::nullopt;
      const FusedFunction fused = known ? fused_activation(*known) : FusedFunction::none;
      if (fused == FusedFunction::none || !is_hidden(steps_before(root, x), x)) continue;
      become(node, fused, x, -1, -1, fused == FusedFunction::silu ? 7 : 9);
      return true;
    }
    return false;
  }

  // Of 10^6 elements three loops took 185 us, and one takes 100.
  bool leaky_relu(TileNode& node) {
    float zero = 1;
    if (!is(node, F::select) || !single(node.in[0]) || !single(node.in[1])) return false;
    const TileNode &is_negative = nodes_[node.in[0]], &product = nodes_[node.in[1]];
    const int32_t x = node.in[2];
    if (!is(is_negative, F::less) || is_negative.in[0] != x || !constant(is_negative.in[1], zero) || zero != 0)
      return false;
    if (!is(product, F::mul) || product.uniform) return false;
    for (int k = 0; k < 2; ++k) {
      if (product.in[k] != x) continue;
      become(node, FusedFunction::leaky_relu, x, product.in[1 - k], -1, 2);
      return true;
    }
    return false;
  }

  // A threshold's select. Of 10^7 elements two loops took 2.1 ms.
  bool above_or_zero(TileNode& node) {
    float zero = 1;
    if (!is(node, F::select) || !single(node.in[0]) || !constant(node.in[2], zero) || zero != 0) return false;
    const TileNode& is_above = nodes_[node.in[0]];
    const int32_t x = node.in[1];
    if (!is(is_above, F::less) || is_above.in[1] != x || std::signbit(zero)) return false;
    become(node, FusedFunction::above_or_zero, x, is_above.in[0], -1, 2);
    return true;
  }

  bool softsign(TileNode& node) {
    float one = 0;
    if (!is(node, F::div) || !single(node.in[1]) || !is(nodes_[node.in[1]], F::add)) return false;
    const TileNode& sum = nodes_[node.in[1]];
    for (int k = 0; k < 2; ++k) {
      const int32_t size = sum.in[k];
      if (!constant(sum.in[1 - k], one) || one != 1 || !single(size) || !is(nodes_[size], F::abs)) continue;
      if (nodes_[size].in[0] != node.in[0]) continue;
      become(node, FusedFunction::softsign, node.in[0], -1, -1, 5);
      return true;
    }
    return false;
  }

  // What `root` is computed from, itself first, the last computed before others: inputs and steps, no further than x.
  std::vector<int32_t> steps_before(int32_t root, int32_t x) const {
    constexpr size_t most = 16;  // the longest, GELU, has five
    std::vector<int32_t> steps{root};
    for (size_t s = 0; s < steps.size() && steps.size() < most; ++s) {
      const TileNode& step = nodes_[steps[s]];
      for (int k = 0; k < step.operands && steps[s] != x; ++k)
        if (nodes_[step.in[k]].kind != Kind::constant && std::ranges::find(steps, step.in[k]) == steps.end())
          steps.push_back(step.in[k]);
    }
    std::ranges::sort(steps, std::greater());
    return steps;
  }

  // The first of the steps as a function of x, which is another.
  FunctionOfX function_of(const std::vector<int32_t>& steps, int32_t x) const {
    std::map<int32_t, FunctionOfX> functions{{x, FunctionOfX::identity()}};
    const auto operand = [&](const TileNode& step, int k) {
      float value = 0;
      if (k >= step.operands) return FunctionOfX();
      return constant(step.in[k], value) ? FunctionOfX::number(value) : functions[step.in[k]];
    };
    for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
      const TileNode& step = nodes_[*s];
      if (*s <= x || !step.is_function || step.dtype != DType::f32) continue;
      functions[*s] = FunctionOfX::apply(step.function, operand(step, 0), operand(step, 1), operand(step, 2));
    }
    return functions[steps.front()];
  }

  // Whether the steps from x to the first, these two left aside, are read by one another alone.
  bool is_hidden(const std::vector<int32_t>& steps, int32_t x) const {
    std::map<int32_t, int32_t> reads;
    for (const int32_t s : steps)
      for (int k = 0; k < nodes_[s].operands && s != x; ++k) ++reads[nodes_[s].in[k]];
    return std::ranges::all_of(steps, [&](int32_t s) { return s == x || s == steps.front() || reads[s] == uses_[s]; });
  }

  // min(max(x, low), high), with constant limits; also written max(min(x, high), low), the same where low <= high.
  bool clamp(TileNode& node) {
    const bool outer_min = is(node, F::min);
    if (!outer_min && !is(node, F::max)) return false;
    for (int k = 0; k < 2; ++k) {
      const int32_t inner = node.in[k], limit = node.in[1 - k];
      float outer_number = 0, inner_number = 0;
      if (!is_number(limit) || !single(inner)) continue;
      const TileNode& other = nodes_[inner];
      const FusedFunction wanted = outer_min ? FusedFunction::max_number : FusedFunction::min_number;
      if (other.fused != wanted || !constant(limit, outer_number) || !constant(other.in[1], inner_number)) continue;
      if (outer_min ? inner_number > outer_number : inner_number < outer_number) continue;
      const int32_t x = other.in[0], second = other.in[1];
      become(node, FusedFunction::clamp, x, outer_min ? second : limit, outer_min ? limit : second);
      scaled_clamp(node);
      return true;
    }
    return false;
  }

  // The same of integers, and of f64 by constants.
  bool plain_clamp(TileNode& node) {
    const bool outer_min = is(node, F::min), is_f64 = node.dtype == DType::f64;
    if ((!outer_min && !is(node, F::max)) || node.uniform || (!is_integer(node.dtype) && !is_f64)) return false;
    for (int k = 0; k < 2; ++k) {
      const int32_t inner = node.in[k], limit = node.in[1 - k];
      if (!single(inner) || !nodes_[limit].uniform || !is(nodes_[inner], outer_min ? F::max : F::min)) continue;
      for (int j = 0; j < 2; ++j) {
        const int32_t x = nodes_[inner].in[j], second = nodes_[inner].in[1 - j];
        const int32_t low = outer_min ? second : limit, high = outer_min ? limit : second;
        if (nodes_[x].uniform || !nodes_[second].uniform || ((!outer_min || is_f64) && !is_ordered(low, high)))
          continue;
        become(node, FusedFunction::clamp, find_clamp(node.dtype), {x, low, high}, 1);
        return true;
      }
    }
    return false;
  }
  // Constants of which low <= high, and neither NaN.
  bool is_ordered(int32_t low, int32_t high) const {
    const TileNode &a = nodes_[low], &b = nodes_[high];
    if (a.kind != Kind::constant || b.kind != Kind::constant) return false;
    if (a.dtype == DType::f64) return std::bit_cast<double>(a.bits) <= std::bit_cast<double>(b.bits);
    return is_signed(a.dtype) ? static_cast<int64_t>(a.bits) <= static_cast<int64_t>(b.bits) : a.bits <= b.bits;
  }

  // A scale and an offset before the limits: HardSigmoid of 10^7 elements took 2.3 ms in two loops.
  void scaled_clamp(TileNode& node) {
    const TileNode& scaled = nodes_[node.in[0]];
    if (!single(node.in[0]) || scaled.fused != FusedFunction::mul_add || !nodes_[scaled.in[2]].uniform) return;
    for (int k = 0; k < 2; ++k) {
      if (!nodes_[scaled.in[1 - k]].uniform) continue;
      become(node, FusedFunction::scaled_clamp, {scaled.in[k], scaled.in[1 - k], scaled.in[2], node.in[1], node.in[2]},
             2);
      return;
    }
  }

  bool add_relu(TileNode& node) {
    float zero = 1;
    if (!is(node, F::max)) return false;
    for (int k = 0; k < 2; ++k) {
      const int32_t sum = node.in[k];
      if (!constant(node.in[1 - k], zero) || zero != 0 || !single(sum) || !is(nodes_[sum], F::add)) continue;
      become(node, FusedFunction::add_relu, nodes_[sum].in[0], nodes_[sum].in[1]);
      return true;
    }
    return false;
  }

  bool min_max_number(TileNode& node) {
    if (!is(node, F::min) && !is(node, F::max)) return false;
    for (int k = 0; k < 2; ++k) {
      if (!is_number(node.in[k])) continue;
      become(node, is(node, F::min) ? FusedFunction::min_number : FusedFunction::max_number, node.in[1 - k],
             node.in[k]);
      return true;
    }
    return false;
  }

  bool multiply_add(TileNode& node) {
    const bool adds = is(node, F::add);
    if (!adds && !is(node, F::sub)) return false;
    for (int k = 0; k < (adds ? 2 : 1); ++k) {
      const int32_t product = node.in[k], addend = node.in[1 - k];
      const TileNode& other = nodes_[product];
      if (!single(product) || other.uniform || !is(other, F::mul)) continue;
      become(node, adds ? FusedFunction::mul_add : FusedFunction::mul_sub, other.in[0], other.in[1], addend);
      return true;
    }
    return false;
  }

  // Of f64, rounded twice as in two loops: BatchNormalization of 735 x 100 x 26 took 1.9 ms on a Xeon, and takes 1.2
  // to 1.7.
  bool multiply_add_f64(TileNode& node) {
    if (!is(node, F::add) || node.uniform || node.dtype != DType::f64) return false;
    for (int k = 0; k < 2; ++k) {
      const int32_t product = node.in[k], addend = node.in[1 - k];
      const TileNode& other = nodes_[product];
      if (!single(product) || other.uniform || !is(other, F::mul)) continue;
      const bool turns = nodes_[other.in[0]].uniform;  // at most the second is one element for all
      become(node, FusedFunction::mul_add, find_multiply_add_f64(), {other.in[turns], other.in[1 - turns], addend}, 1);
      return true;
    }
    return false;
  }

  int32_t index_of(const TileNode& node) const { return static_cast<int32_t>(&node - nodes_.data()); }

  std::vector<TileNode>& nodes_;
  std::vector<int32_t> uses_;
  std::set<int32_t> stored_halves_;  // outputs of f16 that no step reads
};

void drop_dead(TileNodes& program) {
  std::vector<bool> needed(program.nodes.size(), false);
  for (int32_t output : program.outputs) needed[output] = true;
  for (size_t i = program.nodes.size(); i-- > 0;) {
    for (int k = 0; needed[i] && k < program.nodes[i].operands; ++k) needed[program.nodes[i].in[k]] = true;
  }
  std::vector<int32_t> renumbered(program.nodes.size(), -1);
  std::vector<TileNode> kept;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    if (!needed[i]) continue;
    TileNode node = program.nodes[i];
    for (int k = 0; k < node.operands; ++k) node.in[k] = renumbered[node.in[k]];
    renumbered[i] = static_cast<int32_t>(kept.size());
    kept.push_back(node);
  }
  for (int32_t& output : program.outputs) output = renumbered[output];
  program.nodes = std::move(kept);
}

}  // namespace

TileNodes lower_to_nodes(const ScalarProgram& program, const std::vector<bool>& uniform_inputs) {
  const auto& instructions = program.instructions;
  std::vector<bool> needed(instructions.size(), false);
  for (int32_t output : program.outputs) needed[output] = true;
  for (size_t i = instructions.size(); i-- > 0;) {
    const ScalarInstruction& instruction = instructions[i];
    const bool reads =
        instruction.kind == ScalarInstruction::Kind::apply || instruction.kind == ScalarInstruction::Kind::cast;
    if (!needed[i] || !reads) continue;
    for (int32_t operand : {instruction.a, instruction.b, instruction.c}) {
      if (operand >= 0) needed[operand] = true;
    }
  }

  Lowering lowering;
  lowering.result.input_types.assign(program.inputs, DType::f32);
  std::vector<int32_t> value(instructions.size(), -1);
  for (size_t i = 0; i < instructions.size(); ++i) {
    if (!needed[i]) continue;
    const ScalarInstruction& instruction = instructions[i];
    TileNode node;
    node.dtype = register_type(instruction.dtype);
    switch (instruction.kind) {
      case ScalarInstruction::Kind::load:
        node.kind = Kind::input;
        node.dtype = instruction.dtype;
        node.input = instruction.a;
        node.uniform = uniform_inputs[instruction.a];
        lowering.result.input_types[instruction.a] = instruction.dtype;
        find_conversion(instruction.dtype, instruction.dtype);  // throws for types that have no loops
        value[i] = lowering.convert(lowering.add(node), register_type(instruction.dtype));
        break;
      case ScalarInstruction::Kind::constant:
        find_conversion(instruction.dtype, instruction.dtype);
        node.kind = Kind::constant;
        node.uniform = true;
        node.bits = constant_bits(instruction);
        value[i] = lowering.add(node);
        break;
      case ScalarInstruction::Kind::cast: {
        const DType from = instructions[instruction.a].dtype;
        find_conversion(from, instruction.dtype);
        // Registers hold 16-bit floats as f32: what a cast to one rounds away must be rounded here, and here alone.
        const bool narrows = register_type(instruction.dtype) != instruction.dtype && from != instruction.dtype;
        value[i] = narrows ? lowering.convert_to_round(value[instruction.a])
                           : lowering.convert(value[instruction.a], node.dtype);
        if (narrows) {
          value[i] = lowering.round_through(value[i], instruction.dtype);
        }
        break;
      }
      case ScalarInstruction::Kind::apply: {
        node.operands = arity(instruction.function);
        const int32_t operands[3] = {instruction.a, instruction.b, instruction.c};
        for (int k = 0; k < node.operands && k < 3; ++k) node.in[k] = value[operands[k]];
        // The last operand tells the type: select's first is its condition.
        const DType lanes = lowering.result.nodes[node.in[node.operands - 1]].dtype;
        node.kernel = find_kernel(instruction.function, lanes);
        node.cost = tile_cost(instruction.function, lanes);
        node.is_function = true;
        node.function = instruction.function;
        value[i] = lowering.add(node);
        break;
      }
    }
  }
  for (int32_t output : program.outputs) {
    // What is stored in 16 bits is rounded by that: twice, a cast to f16 took 2.3 times as long.
    const TileNode& node = lowering.result.nodes[value[output]];
    const DType stored = instructions[output].dtype;
    const bool rounds_twice = (node.fused == FusedFunction::round_to_f16 && stored == DType::f16) ||
                              (node.fused == FusedFunction::round_to_bf16 && stored == DType::bf16);
    lowering.result.outputs.push_back(rounds_twice ? node.in[0] : value[output]);
    lowering.result.stored.push_back(stored);
  }
  return std::move(lowering.result);
}

void fuse_nodes(TileNodes& program) {
  drop_dead(program);  // what it reads has one reader less
  Fusion(program).run();
  drop_dead(program);
}

}  // namespace camshaft::cpu
