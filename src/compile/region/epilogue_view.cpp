#include "compile/region/epilogue_view.h"

#include <cmath>
#include <limits>

namespace camshaft {

namespace {

using Kind = ScalarInstruction::Kind;

class Viewer {
 public:
  Viewer(const RegionView& region, const ContractView& contract) : region_(region), contract_(contract) {}

  EpilogueView run(int32_t bias) {
    const DType type = contract_.result.dtype == DType::i32 ? DType::i32 : DType::f32;
    int32_t sum = add({.kind = Kind::load, .dtype = type, .a = 0});
    if (bias >= 0) {
      const int32_t at = input(bias);
      const int32_t loaded = add({.kind = Kind::load, .dtype = view_.types[static_cast<size_t>(at) - 1], .a = at});
      sum = add({.kind = Kind::apply, .function = ScalarFunction::add, .dtype = type, .a = sum, .b = loaded});
    }
    view_.program.outputs = {contract_.epilogue ? add_epilogue(sum) : sum};
    view_.program.inputs = static_cast<int>(view_.loads.size()) + 1;
    view_.result = region_.graph.type(region_.node.outputs[0]).dtype;
    view_.norm = contract_.norm;
    view_.gives_moments = contract_.gives_moments;
    return std::move(view_);
  }

 private:
  // Returns what it computes.
  int32_t add_epilogue(int32_t sum) {
    std::vector<int32_t> renamed;
    for (ScalarInstruction i : contract_.epilogue->instructions) {
      if (i.kind == Kind::load) {
        const int32_t region_input = contract_.epilogue_loads[static_cast<size_t>(i.a)];
        if (region_input == -1) {
          renamed.push_back(sum);
          continue;
        }
        i.a = region_input < 0 ? of_norm(region_input) : input(region_input);
      } else {
        for (int32_t* operand : {&i.a, &i.b, &i.c})
          if (*operand >= 0) *operand = renamed[static_cast<size_t>(*operand)];
      }
      renamed.push_back(add(i));
    }
    return renamed[static_cast<size_t>(contract_.epilogue->outputs.at(0))];
  }

  int32_t add(const ScalarInstruction& i) {
    view_.program.instructions.push_back(i);
    return static_cast<int32_t>(view_.program.instructions.size()) - 1;
  }

  // The program's input that a region input is.
  int32_t input(int32_t region_input) {
    const auto it = std::find(view_.loads.begin(), view_.loads.end(), region_input);
    if (it != view_.loads.end()) return static_cast<int32_t>(it - view_.loads.begin()) + 1;
    const ValueId id = region_.node.inputs[static_cast<size_t>(region_input)];
    const TensorType& type = region_.graph.type(id);
    return add_load(region_input, type.dtype, layout_over(type.shape, contract_.result.shape),
                    region_.graph.is_constant(id), most_of(region_.constant(static_cast<size_t>(region_input))));
  }

  static double most_of(const Tensor* constant) {
    constexpr double unknown = std::numeric_limits<double>::infinity();
    if (constant == nullptr || constant->dtype() != DType::f32) return unknown;
    double most = 0;
    for (int64_t i = 0; i < constant->size(); ++i) {
      const double magnitude = std::abs(constant->as<float>()[i]);
      if (!std::isfinite(magnitude)) return unknown;
      most = std::max(most, magnitude);
    }
    return most;
  }

  int32_t of_norm(int32_t part) {
    const EpilogueView::Layout layout =
        part == ContractView::row_mean ? EpilogueView::Layout::row_mean : EpilogueView::Layout::row_factor;
    return add_load(contract_.moments, DType::f32, layout, false);
  }

  int32_t add_load(int32_t region_input, DType type, EpilogueView::Layout layout, bool is_constant,
                   double most = std::numeric_limits<double>::infinity()) {
    view_.loads.push_back(region_input);
    view_.types.push_back(type);
    view_.layouts.push_back(layout);
    view_.constant.push_back(is_constant);
    view_.most.push_back(most);
    return static_cast<int32_t>(view_.loads.size());
  }

  const RegionView& region_;
  const ContractView& contract_;
  EpilogueView view_;
};

}  // namespace

EpilogueView::Layout layout_over(const Shape& operand, const Shape& result) {
  const auto is_one = [](const Dim& d) { return d == Dim(1); };
  if (std::all_of(operand.begin(), operand.end(), is_one)) return EpilogueView::Layout::one;
  if (operand == result) return EpilogueView::Layout::dense;
  const bool is_row = std::all_of(operand.begin(), operand.end() - 1, is_one);
  return is_row && operand.back() == result.back() ? EpilogueView::Layout::columns : EpilogueView::Layout::general;
}

EpilogueView view_epilogue(const RegionView& region, const ContractView& view, int32_t bias) {
  return Viewer(region, view).run(bias);
}

}  // namespace camshaft
