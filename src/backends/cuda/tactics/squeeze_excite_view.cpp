#include "backends/cuda/tactics/squeeze_excite_view.h"

#include <algorithm>

#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/squeeze_excite_parameters.h"
#include "backends/cuda/tactics/product_view.h"
#include "compile/chain.h"
#include "compile/region/pointwise_view.h"
#include "ir/ops/reduce.h"
#include "ir/region.h"

namespace camshaft::cuda {

namespace {

using OperandKind = GateOperand::Kind;

// How an operand is laid over a result; nullopt for what is neither of one pixel nor of the result's shape.
std::optional<OperandKind> kind_of(const Shape& operand, const Shape& result) {
  switch (layout_over(operand, result)) {
    case EpilogueView::Layout::one:
      return OperandKind::one;
    case EpilogueView::Layout::columns:
      return OperandKind::channels;
    case EpilogueView::Layout::dense:
      return OperandKind::dense;
    default:
      return std::nullopt;
  }
}

class Viewer {
 public:
  Viewer(const RegionView& region, const DeviceFacts& device)
      : region_(region), device_(device), parts_(open_chain(region)) {}

  std::optional<SqueezeExciteView> view() {
    if (parts_.nodes.size() != 4 || parts_.outputs.size() != 1 ||
        parts_.nodes[3].outputs != std::vector<ValueId>{parts_.outputs[0]})
      return std::nullopt;
    const auto* mean = parts_.nodes[0].op.as<ops::Reduce>();
    if (!mean || mean->kind != ops::ReduceKind::mean || !mean->keep_dims) return std::nullopt;
    const ValueId image = parts_.nodes[0].inputs[0];
    const TensorType& type = parts_.type(image);
    const size_t rank = type.shape.size();
    if (rank < 3 || mean->axes.size() != rank - 2) return std::nullopt;
    for (size_t a = 0; a < mean->axes.size(); ++a)
      if (mean->axes[a] != static_cast<int64_t>(a) + 1) return std::nullopt;
    const auto squeeze = product(1), excite = product(2);
    if (!squeeze || !excite || !(parts_.type(parts_.outputs[0]) == type)) return std::nullopt;
    const auto channels = type.shape.back().as_constant();
    SqueezeExciteView view{.form = {type.dtype, {}, {}, {}},
                           .channels = channels.value_or(0),
                           .hidden = squeeze->rows->rows,
                           .image = input(image),
                           .squeeze = input(parts_.nodes[1].inputs[static_cast<size_t>(squeeze->b)]),
                           .excite = input(parts_.nodes[2].inputs[static_cast<size_t>(excite->b)]),
                           .squeeze_rows = *squeeze->rows,
                           .excite_rows = *excite->rows,
                           .operands = {},
                           .dense = {}};
    // The least that kernels count in 32 bits.
    constexpr int64_t most = 1 << 20;
    if (view.channels < 1 || view.channels > most || view.hidden > most ||
        view.squeeze_rows.channels != view.channels || view.excite_rows.rows != view.channels ||
        view.excite_rows.channels != view.hidden || view.image < 0 || view.squeeze < 0 || view.excite < 0 ||
        squeeze->form.dtype != type.dtype || excite->form.dtype != type.dtype)
      return std::nullopt;
    if (!follow(1, *squeeze, view.form.squeeze, view) || !follow(2, *excite, view.form.excite, view) ||
        !combine(image, view) || view.operands.size() > most_squeeze_excite_operands)
      return std::nullopt;
    return view;
  }

 private:
  // The chain's input that a value of the body is; -1 if it is none.
  int32_t input(ValueId id) const { return input_index(parts_, id); }

  // Of the part before's results and constant weights.
  std::optional<ProductView> product(size_t part) const {
    const Node& node = parts_.nodes[part];
    auto view = view_product({parts_, node, region_.symbols, region_.threads}, device_);
    if (!view || !view->rows || view->form.window || (view->matmul && view->matmul->transpose_a) ||
        node.inputs[static_cast<size_t>(view->a)] != parts_.nodes[part - 1].outputs[0] || view->epilogue.norm ||
        view->epilogue.gives_moments || view->epilogue.reads(static_cast<size_t>(view->a)))
      return std::nullopt;
    return view;
  }

  bool follow(size_t part, const ProductView& product, GateProgram& program, SqueezeExciteView& view) const {
    const EpilogueView& epilogue = product.epilogue;
    program.program = epilogue.program;
    program.result = epilogue.result;
    program.inputs.push_back({});
    for (size_t k = 0; k < epilogue.loads.size(); ++k) {
      const ValueId id = parts_.nodes[part].inputs[static_cast<size_t>(epilogue.loads[k])];
      const auto kind = kind_of(parts_.shape(id), product.contract.result.shape);
      if (!kind || *kind == OperandKind::dense || input(id) < 0) return false;
      view.operands.push_back(input(id));
      program.inputs.push_back({*kind, epilogue.types[k]});
    }
    return is_computed(program);
  }

  bool combine(ValueId image, SqueezeExciteView& view) const {
    const Node& node = parts_.nodes[3];
    const auto pointwise = view_pointwise({parts_, node, region_.symbols, region_.threads});
    if (!pointwise || pointwise->program.outputs.size() != 1) return false;
    const auto& permutations = pointwise->permutations;
    if (std::any_of(permutations.begin(), permutations.end(), [](const auto& p) { return !p.empty(); })) return false;
    const ValueId gates = parts_.nodes[2].outputs[0];
    const Shape& shape = parts_.shape(image);
    Shape one_pixel(shape.size(), Dim(1));
    one_pixel.front() = shape.front();
    one_pixel.back() = shape.back();
    if (parts_.shape(gates) != one_pixel) return false;
    GateProgram& program = view.form.scale;
    program.program = pointwise->program;
    program.result = view.form.dtype;
    bool reads_image = false, reads_gates = false;
    for (const int32_t load : pointwise->loads) {
      const ValueId id = node.inputs[static_cast<size_t>(load)];
      if (id == image || id == gates) {
        (id == image ? reads_image : reads_gates) = true;
        program.inputs.push_back({id == image ? OperandKind::given : OperandKind::gate, parts_.type(id).dtype});
        continue;
      }
      const auto kind = kind_of(parts_.shape(id), shape);
      if (!kind || input(id) < 0) return false;
      view.operands.push_back(input(id));
      if (*kind == OperandKind::dense) view.dense.push_back(view.operands.back());
      program.inputs.push_back({*kind, parts_.type(id).dtype});
    }
    return reads_image && reads_gates && is_computed(program);
  }

  static bool is_computed(const GateProgram& program) {
    const auto is_real = [](DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; };
    return is_real(program.result) &&
           std::all_of(program.inputs.begin(), program.inputs.end(),
                       [&](const GateOperand& o) { return is_real(o.dtype); }) &&
           std::all_of(program.program.instructions.begin(), program.program.instructions.end(),
                       [](const ScalarInstruction& i) { return has_device_type(i.dtype); });
  }

  const RegionView& region_;
  const DeviceFacts& device_;
  const Graph parts_;
};

}  // namespace

std::optional<SqueezeExciteView> view_squeeze_excite(const RegionView& region, const DeviceFacts& device) {
  if (!is_chain(region.node)) return std::nullopt;
  return Viewer(region, device).view();
}

}  // namespace camshaft::cuda
