#include "backends/cuda/tactics/library_product.h"

#include <algorithm>
#include <cmath>

#include "backends/cuda/tactics/bring_weights.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/product_kernel.h"
#include "base/float_types.h"
#include "compile/optimum.h"

namespace camshaft::cuda {

bool can_narrow_bias(const RegionView& region, int32_t i, DType to) {
  const Tensor* constant = region.constant(static_cast<size_t>(i));
  if (!constant || constant->dtype() != DType::f32) return false;
  std::vector<std::byte> narrow(byte_size(to, constant->size()));
  convert_from_float(to, constant->as<float>(), narrow.data(), constant->size(), false);
  std::vector<float> back(static_cast<size_t>(constant->size()));
  convert_to_float(to, narrow.data(), back.data(), constant->size());
  for (const float x : back)
    if (!std::isfinite(x)) return false;
  return true;
}

namespace {

class LibraryKernel final : public Kernel {
 public:
  LibraryKernel(std::unique_ptr<const LibraryOperands> operands, int32_t overwritten, bool takes_slices,
                MakeLaunch make)
      : operands_(std::move(operands)),
        make_(std::move(make)),
        overwritten_(overwritten),
        takes_slices_(takes_slices) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    try {
      return make_(*operands_, shapes);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::unsupported) throw;
    }
    return operands_->own().prepare(shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override { return static_cast<int32_t>(i) == overwritten_; }
  bool reads_slices(size_t i) const override { return takes_slices_ && reads_input(i); }
  bool writes_slices(size_t) const override { return takes_slices_; }
  bool reads_input(size_t i) const override {
    const ProductView& product = operands_->view().product;
    return !product.rows || static_cast<int32_t>(i) != product.b || product.epilogue.reads(i);
  }

 private:
  std::unique_ptr<const LibraryOperands> operands_;
  MakeLaunch make_;
  int32_t overwritten_;
  bool takes_slices_;
};

}  // namespace

std::optional<LibraryView> view_library(const RegionView& region, const DeviceFacts& device) {
  auto product = view_product(region, device);
  if (!product) return std::nullopt;
  const auto linear = linear_epilogue(product->epilogue);
  const EpilogueView& epilogue = product->epilogue;
  if (!linear || (epilogue.result != product->form.dtype && epilogue.result != DType::f32)) return std::nullopt;
  LibraryView view{.product = std::move(*product), .linear = *linear};
  const DType result = view.product.epilogue.result;
  const auto type = [&](int32_t load) {
    return region.graph.type(region.node.inputs[static_cast<size_t>(view.input_of(load))]);
  };
  if (linear->residual >= 0 && type(linear->residual).dtype != result) return std::nullopt;
  if (linear->bias >= 0) {
    const TensorType bias = type(linear->bias);
    if (bias.shape.empty() || bias.shape.back() != view.product.contract.result.shape.back()) return std::nullopt;
    view.narrows_bias = bias.dtype != result;
    if (view.narrows_bias && !can_narrow_bias(region, view.input_of(linear->bias), result)) return std::nullopt;
  }
  return view;
}

std::vector<TacticOffer> library_offers(const ProductView& product, int ranks,
                                        const std::function<double(bool tf32)>& seconds) {
  std::vector<TacticOffer> offers;
  for (const bool tf32 : {true, false}) {
    if (tf32 && !product.form.tf32) continue;
    const double first = seconds(tf32);
    for (int rank = 0; rank < ranks; ++rank) {
      TacticOffer& offer = offers.emplace_back();
      offer.seconds = first * (1 + 0.01 * rank);
      offer.parameters =
          product.form.tf32 ? TacticParameters{{"rank", rank}, {"tf32", tf32}} : TacticParameters{{"rank", rank}};
    }
  }
  return offers;
}

LibraryChoice library_choice(const ProductView& product, const TacticParameters& parameters) {
  return {static_cast<int>(parameters["rank"]), product.form.tf32 && parameters["tf32"] != 0};
}

bool LibraryAddresses::are_aligned() const {
  for (const std::byte* address : {a, b, residual, bias, static_cast<const std::byte*>(c)})
    if (!is_aligned(address, 16)) return false;
  return true;
}

LibraryOperands::LibraryOperands(const RegionView& region, LibraryView view, const Workshop& workshop,
                                 PackedConstants& constants)
    : view_(std::move(view)), device_(workshop.device()) {
  ProductView& product = view_.product;
  if (product.rows)
    weights_ =
        bring_weights(device_, pack_weight_rows(region, static_cast<size_t>(product.b), *product.rows, constants));
  own_ = product_kernel(region, product, workshop, weights_);
  if (view_.narrows_bias) {
    const Tensor& wide = *region.constant(static_cast<size_t>(view_.input_of(view_.linear.bias)));
    std::vector<std::byte> narrow(byte_size(product.epilogue.result, wide.size()));
    convert_from_float(product.epilogue.result, wide.as<float>(), narrow.data(), wide.size());
    bias_ = upload(*device_, narrow, "the weights of an engine");
  }
  product.contract.anchor = nullptr;  // the graph's, which may go
  if (product.matmul) product.matmul = &(matmul_ = *product.matmul);
}

LibraryAddresses LibraryOperands::bind(const LaunchArguments& arguments) const {
  const auto input = [&](int32_t i) { return i < 0 ? nullptr : arguments.inputs[static_cast<size_t>(i)]; };
  LibraryAddresses at;
  at.a = input(view_.product.a);
  at.b = view_.product.rows ? weights_.data() : input(view_.product.b);
  at.residual = input(view_.input_of(view_.linear.residual));
  at.bias = view_.narrows_bias ? bias_.data() : input(view_.input_of(view_.linear.bias));
  at.c = arguments.outputs[0];
  at.workspace = arguments.workspace;
  return at;
}

namespace {

// Whether the library has something for the region at the optimum shapes, as far as these are known.
bool is_there(const RegionView& region, const LibraryOperands& operands, const MakeLaunch& make) {
  KernelShapes shapes;
  shapes.symbols = &region.symbols;
  const auto add = [&](ValueId id, std::vector<OperandShape>& list) {
    list.emplace_back();
    if (id == no_value) return;
    list.back().dtype = region.graph.type(id).dtype;
    for (const Dim& d : region.graph.shape(id))
      list.back().dims.push_back(static_cast<int64_t>(size_at_optimum(region, d)));
  };
  for (const ValueId id : region.node.inputs) add(id, shapes.inputs);
  for (const ValueId id : region.node.outputs) add(id, shapes.outputs);
  try {
    make(operands, shapes);
  } catch (const Error& e) {
    return e.code() != ErrorCode::unsupported;  // guesses of sizes may contradict each other
  }
  return true;
}

std::shared_ptr<const Kernel> own_kernel(const RegionView& region, const Workshop& workshop,
                                         PackedConstants& constants) {
  const std::vector<TacticOffer> offers = contract_tactic.offers(region, workshop);
  const auto best = std::min_element(offers.begin(), offers.end(),
                                     [](const TacticOffer& a, const TacticOffer& b) { return a.seconds < b.seconds; });
  if (best == offers.end()) throw Error(ErrorCode::unsupported, "no library, and no kernel, has this contraction");
  return contract_tactic.compile(region, best->parameters, workshop, constants);
}

}  // namespace

std::shared_ptr<const Kernel> library_kernel(const RegionView& region, LibraryView view, const Workshop& workshop,
                                             PackedConstants& constants, bool takes_slices, MakeLaunch make) {
  const int32_t residual = view.input_of(view.linear.residual);
  const bool overwrites =
      residual >= 0 && can_overwrite(region, view.product.contract, view.product.epilogue, residual);
  auto operands = std::make_unique<const LibraryOperands>(region, std::move(view), workshop, constants);
  if (!is_there(region, *operands, make)) return own_kernel(region, workshop, constants);
  return std::make_shared<LibraryKernel>(std::move(operands), overwrites ? residual : -1, takes_slices,
                                         std::move(make));
}

}  // namespace camshaft::cuda
