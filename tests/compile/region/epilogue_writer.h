// Epilogues for tests of what takes them apart.
#pragma once

#include <limits>

#include "compile/region/epilogue_view.h"

namespace camshaft {

/// Writes a program; numbers are instructions, and 0 is the sum. Loads are the region's inputs 10, 11, …
struct EpilogueWriter {
  EpilogueView view;

  explicit EpilogueWriter(DType sum = DType::f32) {
    add({.kind = ScalarInstruction::Kind::load, .dtype = sum, .a = 0});
  }
  int32_t add(const ScalarInstruction& i) {
    view.program.instructions.push_back(i);
    return static_cast<int32_t>(view.program.instructions.size()) - 1;
  }
  int32_t load(EpilogueView::Layout layout, DType dtype = DType::f32) {
    view.loads.push_back(static_cast<int32_t>(view.loads.size()) + 10);
    view.types.push_back(dtype);
    view.layouts.push_back(layout);
    view.constant.push_back(false);
    view.most.push_back(std::numeric_limits<double>::infinity());
    return add({.kind = ScalarInstruction::Kind::load, .dtype = dtype, .a = static_cast<int32_t>(view.loads.size())});
  }
  int32_t number(double x) {
    return add({.kind = ScalarInstruction::Kind::constant, .dtype = DType::f32, .number = x});
  }
  int32_t cast(int32_t a, DType to) { return add({.kind = ScalarInstruction::Kind::cast, .dtype = to, .a = a}); }
  int32_t apply(ScalarFunction f, int32_t a, int32_t b = -1) {
    return add({.kind = ScalarInstruction::Kind::apply, .function = f, .dtype = DType::f32, .a = a, .b = b});
  }
  const EpilogueView& end(int32_t result) {
    view.program.outputs = {result};
    view.program.inputs = static_cast<int>(view.loads.size()) + 1;
    return view;
  }
};

}  // namespace camshaft
