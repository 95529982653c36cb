#include "backends/cpu/tactics/integer_epilogue.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/tactics/pointwise.h"
#include "compile/region/peel_table.h"

namespace camshaft::cpu {

namespace {

// No number that is rounded reaches this, so that it becomes an integer of 32 bits.
constexpr double kSmall = 1 << 30;

bool are_small(const StepsOfSum& s, double largest_scale) {
  // A step of q or of the addend is less than this.
  constexpr double most_steps = 1024;
  const double largest = largest_scale * 0x1p31;
  const double q = s.rounds ? most_steps : largest;
  return largest < kSmall && std::abs(s.own) * q + std::abs(s.other) * most_steps + std::abs(s.shift) < kSmall;
}

}  // namespace

std::optional<IntegerEpilogue> IntegerEpilogue::make(const RegionView& region, const ContractView& view) {
  IntegerEpilogue e;
  if (!view.epilogue) return e;
  const EpilogueView whole = view_epilogue(region, view, -1);
  std::optional<ScaledSums> sums = peel_scale(whole);
  if (sums && !sums->steps) {
    for (const TableOfSteps& split : peel_tables(whole)) {
      if (!has_loops(split.table)) break;
      const std::optional<ScaledSums> head = peel_scale(split.steps);
      if (!head || !head->steps) continue;
      sums = head;
      e.table_ = std::make_shared<const ByteTable>(split.table);
      break;
    }
  }
  if (sums && !sums->steps && e.take_activation(region, view, whole)) return e;
  const bool is_scaled = sums && (sums->steps || whole.result == DType::f32);
  if (!is_scaled) {
    e.rest_ = ContractEpilogue::make(region, view, whole, -1, {});
    return e.rest_ ? std::optional(e) : std::nullopt;
  }
  e.scale_ = {sums->load < 0 ? -1 : whole.loads[static_cast<size_t>(sums->load)], sums->number};
  if (sums->steps) {
    e.result_ = Int8Result::steps;
    e.steps_ = *sums->steps;
    if (e.steps_.addend >= 0) {
      const auto load = static_cast<size_t>(e.steps_.addend);
      e.addend_ = whole.loads[load];
      e.addend_is_signed_ = whole.types[load] == DType::i8;
    }
    return e;
  }
  e.rest_ = ContractEpilogue::make(region, view, sums->behind, -1, {1 + kMoreResiduals});
  if (!e.rest_) return std::nullopt;
  e.result_ = Int8Result::scaled;
  return e;
}

bool IntegerEpilogue::take_activation(const RegionView& region, const ContractView& view, const EpilogueView& whole) {
  for (const StepsOfReal& end : peel_steps(whole)) {
    const std::optional<ScaledSums> head = peel_scale(end.real);
    if (!head || head->steps) continue;
    std::optional<ContractEpilogue> rest = ContractEpilogue::make(region, view, head->behind, -1, {1 + kMoreResiduals});
    if (!rest || rest->has_program()) continue;
    result_ = Int8Result::activated;
    scale_ = {head->load < 0 ? -1 : end.real.loads[static_cast<size_t>(head->load)], head->number};
    steps_ = end.steps;
    rest_ = std::move(rest);
    return true;
  }
  return false;
}

bool IntegerEpilogue::reads(size_t i) const {
  const auto input = static_cast<int32_t>(i);
  return input == scale_.input || input == addend_ || (rest_ && rest_->reads(i));
}

BoundIntegerEpilogue::BoundIntegerEpilogue(const IntegerEpilogue& epilogue, const KernelShapes& shapes, int64_t columns)
    : epilogue_(epilogue), ldc_(shapes.outputs[0].pitch()) {
  if (epilogue.rest_) rest_.emplace(*epilogue.rest_, shapes, columns);
  if (epilogue.result_ == Int8Result::sums) return;
  if (epilogue.addend_ >= 0) addend_ld_ = shapes.inputs[static_cast<size_t>(epilogue.addend_)].pitch();
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
  problem.finite_scale = std::all_of(scale_.begin(), scale_.end(), [](float x) { return std::isfinite(x); });
  if (e.result_ == Int8Result::steps || e.result_ == Int8Result::activated) bind_steps(arguments, problem);
}

void BoundIntegerEpilogue::bind_steps(const LaunchArguments& arguments, Int8Problem& problem) const {
  const IntegerEpilogue& e = epilogue_;
  const StepsOfSum& s = e.steps_;
  problem.steps = {.zero = s.zero,
                   .is_signed = s.type == DType::i8,
                   .lo = s.lo,
                   .hi = s.hi,
                   .is_plain = !s.rounds && s.addend < 0 && s.own == 1 && s.shift == 0,
                   .rounds = s.rounds,
                   .own_lo = s.own_lo,
                   .own_hi = s.own_hi,
                   .own_nan = s.own_nan,
                   .own = s.own,
                   .other = s.other,
                   .shift = s.shift,
                   .addend_ld = addend_ld_,
                   .addend_is_signed = e.addend_is_signed_,
                   .table = e.table_ ? e.table_->bytes() : nullptr};
  float largest = 0;
  for (const float x : scale_) largest = std::max(largest, std::abs(x));
  problem.steps.is_small = problem.finite_scale && are_small(s, largest);
  if (e.addend_ >= 0)
    problem.steps.addend = reinterpret_cast<const uint8_t*>(arguments.inputs[static_cast<size_t>(e.addend_)]);
}

}  // namespace camshaft::cpu
