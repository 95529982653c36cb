#include "backends/cpu/tactics/integer_epilogue.h"

#include <algorithm>

#include "compile/region/peel_epilogue.h"

namespace camshaft::cpu {

std::optional<IntegerEpilogue> IntegerEpilogue::make(const RegionView& region, const ContractView& view) {
  IntegerEpilogue e;
  if (!view.epilogue) return e;
  const EpilogueView whole = view_epilogue(region, view, -1);
  const std::optional<ScaledSums> sums = peel_scale(whole);
  const bool is_scaled = sums && (sums->steps || whole.result == DType::f32);
  if (!is_scaled) {
    e.rest_ = ContractEpilogue::make(region, view, whole, -1, 1);
    return e.rest_ ? std::optional(e) : std::nullopt;
  }
  e.scale_ = {sums->load < 0 ? -1 : whole.loads[static_cast<size_t>(sums->load)], sums->number};
  if (sums->steps) {
    e.result_ = Int8Result::steps;
    e.zero_ = sums->zero;
    e.is_signed_ = *sums->steps == DType::i8;
    return e;
  }
  e.rest_ = ContractEpilogue::make(region, view, sums->behind, -1, 1 + kMoreResiduals);
  if (!e.rest_) return std::nullopt;
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
