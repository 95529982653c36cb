#include "backends/cpu/tactics/interval_select.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "backends/cpu/kernels/pointwise/interval_select.h"
#include "backends/cpu/kernels/pointwise/pointwise.h"
#include "backends/cpu/tactics/pointwise.h"
#include "compile/region/pointwise_view.h"
#include "ir/replaceable.h"

namespace camshaft::cpu {

namespace {

using F = ScalarFunction;
using Kind = ScalarInstruction::Kind;

// What stands on one side of the choice.
struct ArmView {
  int32_t load = -1;                     // of the program; none: a number
  bool is_element = true;                // one for all places
  std::array<std::byte, 8> number = {};  // its bytes
};

struct IntervalView {
  IntervalSelect kernel;  // but its dims and strides
  PointwiseView view;
  int32_t row = -1;  // load of the rows' numbers, or of the mask
  ArmView passes, fails;
};

// The bytes of a number of the program, or of a boolean as one of its types.
std::array<std::byte, 8> bytes_of(const ScalarInstruction& number, DType to) {
  ScalarProgram program;
  program.instructions = {number};
  if (number.dtype != to) {
    ScalarInstruction cast;
    cast.kind = Kind::cast;
    cast.dtype = to;
    cast.a = 0;
    program.instructions.push_back(cast);
  }
  program.outputs = {static_cast<int32_t>(program.instructions.size()) - 1};
  std::array<std::byte, 8> bytes = {};
  void* const outputs[] = {bytes.data()};
  ThreadPool pool(1);
  Pointwise(program, {1}, {}).run(pool, nullptr, outputs);
  return bytes;
}

class Matcher {
 public:
  explicit Matcher(const RegionView& region) : region_(region) {}

  std::optional<IntervalView> match() {
    auto view = view_pointwise(region_);
    if (!view || region_.node.outputs.size() != 1 || !has_loops(view->program)) return std::nullopt;
    found_.view = std::move(*view);
    const TensorType& out = region_.graph.type(region_.node.outputs[0]);
    if (out.shape.empty() || bit_width(out.dtype) < 8) return std::nullopt;
    found_.kernel.width = bit_width(out.dtype) / 8;
    const ScalarInstruction& root = at(found_.view.program.outputs[0]);
    bool is_found = false;
    if (root.kind == Kind::apply && root.function == F::select) {
      is_found = (compares(root.a) || is_mask(root.a)) && is_arm(root.b, found_.passes) && is_arm(root.c, found_.fails);
    } else if (compares(root.kind == Kind::cast ? root.a : found_.view.program.outputs[0])) {
      is_found = true;
      found_.passes.number = bytes_of(boolean(true), out.dtype);
      found_.fails.number = bytes_of(boolean(false), out.dtype);
    }
    return is_found ? std::optional(std::move(found_)) : std::nullopt;
  }

 private:
  const ScalarInstruction& at(int32_t i) const { return found_.view.program.instructions[static_cast<size_t>(i)]; }
  ValueId operand(int32_t load) const {
    return region_.node.inputs[static_cast<size_t>(found_.view.loads[static_cast<size_t>(load)])];
  }
  static ScalarInstruction boolean(bool value) {
    ScalarInstruction made;
    made.kind = Kind::constant;
    made.dtype = DType::boolean;
    made.number = value ? 1 : 0;
    made.integer = value ? 1 : 0;
    return made;
  }

  bool compares(int32_t condition) {
    const ScalarInstruction& test = at(condition);
    if (test.kind != Kind::apply) return false;
    if (test.function == F::less) {
      found_.kernel.test = IntervalSelect::Test::less;
    } else if (test.function == F::less_or_equal) {
      found_.kernel.test = IntervalSelect::Test::less_or_equal;
    } else if (test.function == F::equal) {
      found_.kernel.test = IntervalSelect::Test::equal;
    } else {
      return false;
    }
    for (const bool column_first : {true, false}) {
      const ScalarInstruction &column = at(column_first ? test.a : test.b), &row = at(column_first ? test.b : test.a);
      if (column.kind != Kind::load || row.kind != Kind::load || !is_column(column.a) || !is_row(row.a)) continue;
      found_.kernel.column_first = column_first;
      found_.row = row.a;
      return true;
    }
    return false;
  }

  // A constant that counts the places of the last axis.
  bool is_column(int32_t load) {
    const ValueId id = operand(load);
    const Tensor* numbers = region_.constant(static_cast<size_t>(found_.view.loads[static_cast<size_t>(load)]));
    const auto columns = region_.graph.shape(region_.node.outputs[0]).back().as_constant();
    if (!numbers || !columns || numbers->dims().empty() || numbers->size() != *columns ||
        numbers->dims().back() != *columns || may_be_replaced(region_.graph.value(id).provenance))
      return false;
    constexpr int64_t beyond = int64_t{1} << 40;  // sums with sizes fit
    const auto counts = [&](const auto* values) {
      for (int64_t i = 0; i < *columns; ++i)
        if (values[i] - i != values[0]) return false;
      found_.kernel.first = *columns > 0 ? values[0] : 0;
      return found_.kernel.first > -beyond && found_.kernel.first < beyond;
    };
    found_.kernel.columns = *columns;
    found_.kernel.row_dtype = numbers->dtype();
    if (numbers->dtype() == DType::i32) return counts(numbers->as<int32_t>());
    return numbers->dtype() == DType::i64 && counts(numbers->as<int64_t>());
  }

  // A constant mask whose rows have one run each.
  bool is_mask(int32_t condition) {
    const ScalarInstruction& load = at(condition);
    if (load.kind != Kind::load || load.dtype != DType::boolean) return false;
    const Tensor* mask = region_.constant(static_cast<size_t>(found_.view.loads[static_cast<size_t>(load.a)]));
    const auto columns = region_.graph.shape(region_.node.outputs[0]).back().as_constant();
    if (!mask || !columns || *columns == 0 || mask->dims().empty() || mask->dims().back() != *columns ||
        may_be_replaced(region_.graph.value(operand(load.a)).provenance))
      return false;
    std::vector<std::pair<int64_t, int64_t>>& runs = found_.kernel.runs;
    const auto* row = mask->as<uint8_t>();
    for (const auto* end = row + mask->size(); row != end; row += *columns) {
      const auto* const past = row + *columns;
      const auto* const from = std::find(row, past, uint8_t{1});
      const auto* const to = std::find(from, past, uint8_t{0});
      if (std::find(to, past, uint8_t{1}) != past) return false;
      runs.emplace_back(from - row, to - row);
    }
    found_.kernel.columns = *columns;
    found_.row = load.a;
    return !runs.empty();
  }

  bool is_row(int32_t load) const {
    const TensorType& type = region_.graph.type(operand(load));
    return type.dtype == found_.kernel.row_dtype && (type.shape.empty() || type.shape.back() == Dim(1));
  }

  bool is_arm(int32_t instruction, ArmView& arm) const {
    const ScalarInstruction& value = at(instruction);
    const TensorType& out = region_.graph.type(region_.node.outputs[0]);
    if (value.dtype != out.dtype) return false;
    if (value.kind == Kind::constant) {
      arm.number = bytes_of(value, out.dtype);
      return true;
    }
    if (value.kind != Kind::load) return false;
    const Shape& shape = region_.graph.shape(operand(value.a));
    arm.load = value.a;
    arm.is_element = std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d == Dim(1); });
    return arm.is_element || shape == out.shape;
  }

  const RegionView& region_;
  IntervalView found_;
};

class IntervalLaunch final : public Launch {
 public:
  IntervalLaunch(const IntervalView& view, const KernelShapes& shapes) : view_(view), kernel_(view.kernel) {
    const PointwiseStrides strides = pointwise_strides(view.view, shapes);
    kernel_.dims = shapes.outputs[0].dims;
    kernel_.dims.pop_back();
    kernel_.strides = strides.loads[static_cast<size_t>(view.row)];
    kernel_.strides.pop_back();
    if (!kernel_.runs.empty())  // of which there is one for each row of the mask
      for (int64_t& stride : kernel_.strides) stride /= kernel_.columns;
  }
  void run(const LaunchArguments& a) override {
    const auto memory = [&](int32_t load) {
      return a.inputs[static_cast<size_t>(view_.view.loads[static_cast<size_t>(load)])];
    };
    const auto arm = [&](const ArmView& of) {
      return IntervalSelect::Arm{of.load < 0 ? of.number.data() : memory(of.load), of.is_element};
    };
    kernel_.run(a.pool, kernel_.runs.empty() ? memory(view_.row) : nullptr, arm(view_.passes), arm(view_.fails),
                a.outputs[0]);
  }

 private:
  const IntervalView& view_;
  IntervalSelect kernel_;
};

class IntervalKernel final : public Kernel {
 public:
  explicit IntervalKernel(IntervalView view) : view_(std::move(view)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<IntervalLaunch>(view_, shapes);
  }
  bool reads_input(size_t i) const override { return view_.kernel.runs.empty() || !reads(view_.row, i); }
  // Over what is chosen from: then only the others are written.
  bool can_run_in_place(size_t i, size_t) const override {
    const bool is_choice = (reads(view_.passes.load, i) && !view_.passes.is_element) ||
                           (reads(view_.fails.load, i) && !view_.fails.is_element);
    return is_choice && !reads(view_.row, i);
  }

 private:
  bool reads(int32_t load, size_t i) const {
    return load >= 0 && view_.view.loads[static_cast<size_t>(load)] == static_cast<int32_t>(i);
  }

  IntervalView view_;
};

std::optional<double> estimate_interval_select(const RegionView& region) {
  if (!Matcher(region).match()) return std::nullopt;
  return seconds_per_launch + 0.5 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_interval_select(const RegionView& region, PackedConstants&) {
  return std::make_shared<IntervalKernel>(*Matcher(region).match());
}

}  // namespace

const CpuTactic interval_select_tactic{"interval_select", estimate_interval_select, compile_interval_select};

}  // namespace camshaft::cpu
