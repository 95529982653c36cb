// The cells of recurrent layers on vectors of units: activations, and what follows the sums of the gates. Included once
// per instruction set.
#if defined(CAMSHAFT_CPU_RECURRENT_CELL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_RECURRENT_CELL_INL_H
#undef CAMSHAFT_CPU_RECURRENT_CELL_INL_H
#else
#define CAMSHAFT_CPU_RECURRENT_CELL_INL_H
#endif

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/pointwise/vector_math-inl.h"
#include "backends/cpu/kernels/recurrent/recurrent.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {

using CellTag = hn::ScalableTag<float>;
using CellVec = hn::Vec<CellTag>;

inline CellVec activate(const RecurrentActivation& a, CellVec x) {
  const CellTag d;
  const CellVec zero = hn::Zero(d), one = hn::Set(d, 1.0f), alpha = hn::Set(d, a.alpha), beta = hn::Set(d, a.beta);
  switch (a.function) {
    case RecurrentFunction::affine:
      return hn::MulAdd(alpha, x, beta);
    case RecurrentFunction::elu:
      return hn::IfThenElse(hn::Ge(x, zero), x, hn::Mul(alpha, hn::Sub(exp_f32(d, x), one)));
    case RecurrentFunction::hard_sigmoid:
      return clamp_keeping_nan(hn::MulAdd(alpha, x, beta), zero, one);
    case RecurrentFunction::leaky_relu:
      return hn::IfThenElse(hn::Ge(x, zero), x, hn::Mul(alpha, x));
    case RecurrentFunction::relu:
      return hn::IfThenElse(hn::Lt(x, zero), zero, x);
    case RecurrentFunction::scaled_tanh:
      return hn::Mul(alpha, tanh_f32(d, hn::Mul(beta, x)));
    case RecurrentFunction::sigmoid:
      return sigmoid_f32(d, x);
    case RecurrentFunction::softplus:
      return hn::Add(hn::IfThenElse(hn::Lt(x, zero), zero, x), log1p_f32(d, exp_f32(d, hn::Neg(hn::Abs(x)))));
    case RecurrentFunction::softsign:
      return hn::Div(x, hn::Add(one, hn::Abs(x)));
    case RecurrentFunction::tanh:
      return tanh_f32(d, x);
    case RecurrentFunction::thresholded_relu:
      return hn::IfThenElse(hn::Lt(x, alpha), zero, x);
  }
  return x;
}

/// How the cells of a direction compute: `usual` ones have sigmoid for f, tanh for the others, and nothing optional.
struct CellRules {
  const RecurrentActivation* functions;
  float clip;
  bool input_forget;
};

inline bool is_usual(const RecurrentSteps& args, const RecurrentDirection& direction) {
  const auto is = [&](int i, RecurrentFunction function) { return direction.activations[i].function == function; };
  if (args.clip > 0 || args.input_forget || direction.peepholes) return false;
  switch (args.layout.cell) {
    case RecurrentCell::rnn:
      return is(0, RecurrentFunction::tanh);
    case RecurrentCell::gru:
    case RecurrentCell::gru_linear:
      return is(0, RecurrentFunction::sigmoid) && is(1, RecurrentFunction::tanh);
    case RecurrentCell::lstm:
      return is(0, RecurrentFunction::sigmoid) && is(1, RecurrentFunction::tanh) && is(2, RecurrentFunction::tanh);
  }
  return false;
}

/// Activation i of a cell, `usual_function` where the cell is usual.
template <bool usual, RecurrentFunction usual_function>
HWY_INLINE CellVec cell_function(const CellRules& rules, int i, CellVec x) {
  const CellTag d;
  if constexpr (usual) return usual_function == RecurrentFunction::sigmoid ? sigmoid_f32(d, x) : tanh_f32(d, x);
  if (rules.clip > 0) x = clamp_keeping_nan(x, hn::Set(d, -rules.clip), hn::Set(d, rules.clip));
  return activate(rules.functions[i], x);
}

/// Loads `count` lanes, zeros beyond.
HWY_INLINE CellVec load_lanes(const float* from, int64_t count) {
  const CellTag d;
  if (count == static_cast<int64_t>(hn::Lanes(d))) return hn::LoadU(d, from);
  return masked_load(hn::FirstN(d, static_cast<size_t>(count)), d, from);
}
HWY_INLINE void store_lanes(CellVec v, float* to, int64_t count) {
  const CellTag d;
  if (count == static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, to);
  masked_store(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
}

/// From the sums of the four gates: replaces c, returns h. `peepholes` are of this block, `hidden` apart, or none.
template <bool usual>
HWY_INLINE CellVec lstm_cell(const CellRules& rules, const CellVec* gates, CellVec& c, const float* peepholes,
                             int64_t hidden, int64_t count) {
  const CellTag d;
  CellVec input = gates[0], output = gates[1], forget = gates[2];
  if (!usual && peepholes) {
    input = hn::MulAdd(load_lanes(peepholes, count), c, input);
    forget = hn::MulAdd(load_lanes(peepholes + 2 * hidden, count), c, forget);
  }
  input = cell_function<usual, RecurrentFunction::sigmoid>(rules, 0, input);
  forget = !usual && rules.input_forget ? hn::Sub(hn::Set(d, 1.0f), input)
                                        : cell_function<usual, RecurrentFunction::sigmoid>(rules, 0, forget);
  const CellVec next = cell_function<usual, RecurrentFunction::tanh>(rules, 1, gates[3]);
  c = hn::MulAdd(forget, c, hn::Mul(input, next));
  if (!usual && peepholes) output = hn::MulAdd(load_lanes(peepholes + hidden, count), c, output);
  output = cell_function<usual, RecurrentFunction::sigmoid>(rules, 0, output);
  return hn::Mul(output, cell_function<usual, RecurrentFunction::tanh>(rules, 2, c));
}

/// The new state between the candidate `next` and the old one.
HWY_INLINE CellVec gru_mix(CellVec update, CellVec next, CellVec h) {
  const CellTag d;
  return hn::MulAdd(update, h, hn::Mul(hn::Sub(hn::Set(d, 1.0f), update), next));
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
