// Products of few rows with constant weights, which are read where kernels for many rows have them, too.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "backends/cuda/codegen/few_rows_text.h"
#include "backends/cuda/device/few_rows_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/bring_weights.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/product_view.h"
#include "backends/cuda/tactics/prologue.h"
#include "base/divide_up.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cuda {

namespace {

/// How columns and k are shared out.
struct FewRowsChoice {
  int warps = 8;   ///< of a block
  int shares = 4;  ///< of them have the same columns
  double seconds = 0;

  TacticParameters parameters() const { return {{"warps", warps}, {"shares", shares}}; }
};

struct FewRowsView {
  ProductView product;
  ContractSize size;               ///< at the optimum
  std::optional<Prologue> before;  ///< then the product has no A

  bool reads_input(size_t i) const { return product.reads_input(i) || (before && before->reads(i)); }
};

std::optional<FewRowsView> view_few_rows_layer(const RegionView& region, const DeviceFacts& device) {
  auto product = view_product(region, device);
  if (!product || !product->matmul || !product->rows || product->matmul->transpose_a ||
      input_type(region, product->a).shape.size() < 2)
    return std::nullopt;
  // A batch of matrices is one of all their rows, as B is the same for all.
  const ContractSize size = size_at_optimum(region, *product);
  product->matmul = nullptr;  // the graph's, which may go
  product->contract.anchor = nullptr;
  return FewRowsView{*std::move(product), size, std::nullopt};
}

// A product, or one behind a pointwise layer.
std::optional<FewRowsView> view_few_rows(const RegionView& region, const DeviceFacts& device) {
  if (!is_chain(region.node)) return view_few_rows_layer(region, device);
  const auto chained = ChainedProduct::of(region);
  if (!chained) return std::nullopt;
  auto view = view_few_rows_layer(chained->product(), device);
  if (!view || view->product.a != 0 || view->product.epilogue.reads(0)) return std::nullopt;
  view->before = view_prologue(*chained);
  if (!view->before) return std::nullopt;
  const std::vector<int32_t>& inputs = chained->inputs_of_product();
  use_inputs_of_chain(view->product.contract, view->product.epilogue, inputs);
  view->product.a = -1;
  view->product.b = inputs[static_cast<size_t>(view->product.b)];
  return view;
}

FewRowsForm form_of(const FewRowsView& view, const FewRowsChoice& choice, int64_t rows) {
  FewRowsForm form{.dtype = view.product.form.dtype, .warps = choice.warps, .shares = choice.shares};
  while (form.rows < FewRowsForm::most_rows && form.rows < rows) form.rows *= 2;
  // The columns of a part of a row's moments are finished by one block.
  if (const auto& moments = view.product.epilogue.gives_moments)
    form.cluster = std::max(1, static_cast<int>(moments->width) / form.columns());
  form.whole = view.product.rows->rows % form.columns() == 0 && view.product.rows->pitch % form.piece() == 0;
  form.computes_rows = view.before.has_value();
  return form;
}

// Of dynamic shared memory, beside what an epilogue takes.
int64_t most_shared_bytes(const DeviceFacts& device) {
  return device.shared_bytes_per_block - most_epilogue_shared_bytes;
}

// So many bytes of weights are under way on each multiprocessor where memory is busy. (An H200, 2,048 columns of 8,192:
// 9.4 us with 128 KiB, 10.5 with 64, 13.1 with 32.)
constexpr double bytes_under_way = 72 << 10;

double seconds_of_few_rows(const FewRowsView& view, const FewRowsChoice& choice, const DeviceFacts& device) {
  const ContractSize& size = view.size;
  const double rows = std::max(1.0, size.m * size.batch), passes = std::ceil(rows / FewRowsForm::most_rows);
  const FewRowsForm form = form_of(view, choice, static_cast<int64_t>(std::min(rows, 8.0)));
  const double pieces = std::ceil(size.k / form.piece()), of_warp = std::ceil(pieces / choice.shares),
               warps = std::ceil(size.n / form.columns()) * choice.warps;
  const double most_warps = static_cast<double>(form.least_blocks()) * choice.warps * device.multiprocessors;
  constexpr double piece_bytes = 512 * FewRowsForm::columns_of_warp;
  const double under_way = std::min(warps, most_warps) * std::min(of_warp, double{FewRowsForm::depth}) * piece_bytes;
  const double of_memory = size.n * size.k * bit_width(form.dtype) / 8 * seconds_per_byte *
                           std::max(1.0, bytes_under_way * device.multiprocessors / under_way);
  // A lane multiplies, and widens, one element at a time.
  constexpr double lanes = 128, clock = 1.5e9;
  const double of_sums = size.n * size.k * (form.rows + 1) / (lanes * clock * device.multiprocessors);
  // Blocks of further rows begin and end, too, where kernels for many rows have one for all.
  constexpr double seconds_a_pass = 2e-6;
  return seconds_per_launch + (form.cluster > 1 ? 1e-6 : 0) + (passes - 1) * seconds_a_pass +
         passes * std::max(of_memory, of_sums);
}

std::vector<FewRowsChoice> few_rows_choices(const FewRowsView& view, const DeviceFacts& device) {
  std::vector<FewRowsChoice> choices;
  for (const auto& [warps, shares] : {std::pair(8, 4), {16, 8}, {8, 2}, {16, 4}, {8, 1}, {16, 2}}) {
    FewRowsChoice choice{warps, shares};
    if (form_of(view, choice, 1).cluster > 1 && !device.features.clusters) continue;
    // A turn of the warps' pieces, of as many rows as there may be, has to fit.
    const FewRowsForm largest = form_of(view, choice, FewRowsForm::most_rows);
    if (largest.shared_bytes(choice.shares * FewRowsForm::depth) > most_shared_bytes(device)) continue;
    choice.seconds = seconds_of_few_rows(view, choice, device);
    choices.push_back(choice);
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const FewRowsChoice& a, const FewRowsChoice& b) { return a.seconds < b.seconds; });
  return choices;
}

class FewRowsKernel final : public Kernel {
 public:
  FewRowsKernel(const RegionView& region, FewRowsView view, const FewRowsChoice& choice, const Workshop& workshop,
                DeviceWeights weights)
      : device_(workshop.device()),
        workshop_(workshop),
        view_(std::move(view)),
        choice_(choice),
        weights_(std::move(weights)) {
    for (int32_t i = 0; i < static_cast<int32_t>(region.node.inputs.size()); ++i)
      can_overwrite_.push_back(can_overwrite(region, view_.product.contract, view_.product.epilogue, i) &&
                               !(view_.before && view_.before->reads(static_cast<size_t>(i))));
  }

  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override;
  bool can_run_in_place(size_t i, size_t o) const override { return o == 0 && can_overwrite_[i]; }
  bool reads_slices(size_t i) const override {
    return reads_input(i) && static_cast<int32_t>(i) != view_.product.contract.moments;
  }
  bool writes_slices(size_t o) const override { return o == 0; }
  bool reads_input(size_t i) const override { return view_.reads_input(i); }

  const Device& device() const { return *device_; }
  const ProductView& view() const { return view_.product; }
  const std::optional<Prologue>& before() const { return view_.before; }
  const FewRowsChoice& choice() const { return choice_; }
  const std::byte* weights() const { return weights_.data(); }
  FewRowsForm form(int64_t rows) const { return form_of(view_, choice_, rows); }
  /// `aligned`: see finish_text(). Made when first asked for.
  const Function& function(const FewRowsForm& form, bool aligned) const {
    const std::lock_guard lock(mutex_);
    const auto key = std::pair(form.rows, aligned);
    const auto found = functions_.find(key);
    if (found != functions_.end()) return found->second;
    const std::string text =
        few_rows_text(form, finish_text(view().epilogue, aligned), before() ? rows_text(*before()) : std::string());
    const Module module = workshop_.module("few_rows", text);
    return functions_
        .emplace(key, module.function("few_rows", static_cast<unsigned>(most_shared_bytes(device_->facts()))))
        .first->second;
  }

 private:
  std::shared_ptr<const Device> device_;  // outlives the functions
  const Workshop& workshop_;              // the backend's
  FewRowsView view_;
  FewRowsChoice choice_;
  DeviceWeights weights_;
  std::vector<bool> can_overwrite_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int, bool>, Function> functions_;  // by rows
};

class FewRowsLaunch final : public Launch {
 public:
  FewRowsLaunch(const FewRowsKernel& kernel, const KernelShapes& shapes)
      : kernel_(kernel), operands_(kernel.view().epilogue, shapes) {
    const ProductView& view = kernel.view();
    const OperandShape& c = shapes.outputs[0];
    require_equal(c.dims.back(), view.rows->rows, "the number of columns of a matmul");
    const int64_t rows = element_count(Dims(c.dims.begin(), c.dims.end() - 1));
    if (kernel.before()) {
      Dims between = c.dims;
      between.back() = view.rows->channels;
      before_.emplace(*kernel.before(), shapes, between);
    } else {
      const OperandShape& x = shapes.inputs[static_cast<size_t>(view.a)];
      require_equal(x.dims.back(), view.rows->channels, "the size that a product sums over");
      p_.x_row = narrow(x.pitch(), "a row of an operand");
      x_can_be_vector_ = p_.x_row % 8 == 0;
    }
    if (rows == 0) return;
    form_ = kernel.form(rows);
    p_.m = narrow(rows, "a number of rows");
    p_.n = narrow(view.rows->rows);
    p_.k = narrow(view.rows->channels);
    p_.b_row = narrow(view.rows->pitch);
    p_.pieces = count(p_.b_row, form_.piece());
    p_.slab = slab();
    p_.c_row = narrow(c.pitch(), "a row of a result");
    c_alignment_ = static_cast<uintptr_t>(std::min<int64_t>(16, bit_width(view.epilogue.result)));
    c_can_be_vector_ = p_.c_row % 8 == 0;
    can_be_aligned_ = p_.n % 8 == 0 && c_can_be_vector_ && operands_.can_be_vector();
    if (can_be_aligned_) kernel.function(form_, true);
    kernel.function(form_, false);
    size_.blocks = count(p_.n, int64_t{form_.columns()} * form_.cluster);
    size_.blocks_y = size_.cluster_y = static_cast<unsigned>(form_.cluster);
    size_.threads = static_cast<unsigned>(form_.threads());
    size_.shared_bytes = static_cast<unsigned>(form_.shared_bytes(static_cast<int>(p_.slab)));
  }

  void run(const LaunchArguments& arguments) override {
    if (p_.m == 0) return;
    if (before_)
      before_->bind(arguments, p_.before);
    else
      p_.x = arguments.inputs[static_cast<size_t>(kernel_.view().a)];
    p_.b = kernel_.weights();
    p_.c = arguments.outputs[0];
    p_.x_vector = x_can_be_vector_ && is_aligned(p_.x);
    p_.c_vector = c_can_be_vector_ && reinterpret_cast<uintptr_t>(p_.c) % c_alignment_ == 0;
    const bool aligned = operands_.bind(arguments, p_.operand) && can_be_aligned_ && p_.c_vector;
    const Function& function = kernel_.function(form_, aligned);
    constexpr uint32_t most_blocks_z = 65535;
    const uint32_t most_rows = most_blocks_z * static_cast<uint32_t>(form_.rows);
    for (p_.first_row = 0; p_.first_row < p_.m; p_.first_row += most_rows) {
      size_.blocks_z = count(std::min(p_.m - p_.first_row, most_rows), form_.rows);
      void* argument = &p_;
      function.launch(stream_of(arguments), size_, {&argument, 1});
    }
  }

 private:
  static uint32_t count(int64_t size, int64_t piece) { return static_cast<uint32_t>(divide_up(size, piece)); }

  // Rows of so many pieces take no more of shared memory than lets blocks share a multiprocessor. Warps have pieces of
  // the next rows on their way, so that all of them take equally many of each.
  uint32_t slab() const {
    constexpr int most_bytes = 48 << 10, piece_bytes = 512;
    const int turn = form_.shares * FewRowsForm::depth, of_rows = form_.rows * piece_bytes;
    return std::min(p_.pieces, static_cast<uint32_t>(std::max(1, most_bytes / of_rows / turn) * turn));
  }

  const FewRowsKernel& kernel_;
  EpilogueOperands operands_;
  std::optional<PrologueOperands> before_;
  FewRowsForm form_;
  FewRowsParameters p_ = {};
  LaunchSize size_;
  bool x_can_be_vector_ = false, c_can_be_vector_ = false, can_be_aligned_ = false;
  uintptr_t c_alignment_ = 16;
};

std::unique_ptr<Launch> FewRowsKernel::prepare(const KernelShapes& shapes) const {
  return std::make_unique<FewRowsLaunch>(*this, shapes);
}

std::vector<TacticOffer> offer_few_rows(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  const auto view = view_few_rows(region, device);
  if (!view) return {};
  std::vector<TacticOffer> offers;
  for (const FewRowsChoice& choice : few_rows_choices(*view, device))
    offers.push_back({.parameters = choice.parameters(),
                      .seconds = choice.seconds,
                      .moves_steps = moves_steps_of(view->product.epilogue)});
  return offers;
}

std::shared_ptr<const Kernel> compile_few_rows(const RegionView& region, const TacticParameters& parameters,
                                               const Workshop& workshop, PackedConstants& constants) {
  FewRowsView view = *view_few_rows(region, workshop.device()->facts());
  const FewRowsChoice choice{static_cast<int>(parameters["warps"]), static_cast<int>(parameters["shares"])};
  DeviceWeights weights = bring_weights(
      workshop.device(), pack_weight_rows(region, static_cast<size_t>(view.product.b), *view.product.rows, constants));
  return std::make_shared<FewRowsKernel>(region, std::move(view), choice, workshop, std::move(weights));
}

}  // namespace

const CudaTactic few_rows_tactic{"cuda_few_rows", offer_few_rows, compile_few_rows};

}  // namespace camshaft::cuda
