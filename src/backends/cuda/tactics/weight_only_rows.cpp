#include "backends/cuda/tactics/weight_only_rows.h"

#include <algorithm>
#include <numeric>

#include "backends/cuda/device/weight_only_parameters.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/split_sums.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cuda {

namespace {

constexpr int most_row_tiles = 4;

// Bytes that are under way at once while memory is busy: what it gives in the 0.7 us that it takes to answer.
constexpr double seconds_of_memory = 0.7e-6;
constexpr double seconds_of_sharing = 1.2e-6;  // leaving sums, counting, and reading them again

double seconds_of_rows(const WeightOnlyView& view, const RowsChoice& choice, double rows, const DeviceFacts& device) {
  const double chunk = 256.0 / view.bits(), chunks = std::ceil(static_cast<double>(view.k) / chunk),
               tiles = std::ceil(static_cast<double>(view.n) / 16);
  const double of_block = std::ceil(chunks / choice.splits), of_warp = std::ceil(of_block / choice.warps);
  const double bytes = chunks * tiles *
                       (512 + static_cast<double>(view.blocks()) / chunks * 16 *
                                  (bit_width(view.scale_dtype) / 8.0 + (view.one_zero ? 0 : 1)));
  constexpr double most_warps = 48, depth = 4;
  const double resident = std::min(tiles * choice.splits * choice.warps, most_warps * device.multiprocessors);
  const double under_way = resident * std::min(depth, of_warp) * 512, wanted = seconds_of_memory / seconds_per_byte;
  const double parts = view.x_dtype == DType::f32 ? 3 : 1, passes = std::ceil(rows * parts / (8 * most_row_tiles));
  const double blocks_at_once = std::max(1.0, most_warps / choice.warps) * device.multiprocessors;
  const double waves = std::ceil(tiles * choice.splits / blocks_at_once);
  // Rows of X come in before, sums are added up behind: the more warps, the longer.
  const double around = 1e-6 + waves * (0.5e-6 + choice.warps * 0.02e-6);
  // Further tiles of 8 rows in a pass (an H200: a row by 8192 x 2048 in 4 bits takes 8 us, 32 rows 46).
  const double row_tiles = std::min(std::ceil(rows * parts / 8), double{most_row_tiles});
  constexpr double seconds_of_row_tile_per_byte = 1.4e-12;
  return seconds_per_launch + (choice.splits > 1 ? seconds_of_sharing : 0) +
         passes * (around + (row_tiles - 1) * bytes * seconds_of_row_tile_per_byte +
                   bytes * seconds_per_byte / std::min(1.0, under_way / wanted));
}

class RowsLaunch final : public Launch {
 public:
  RowsLaunch(const CompiledRows& compiled, const KernelShapes& shapes)
      : compiled_(compiled), operands_(compiled.view().epilogue, shapes) {
    const WeightOnlyView& view = compiled.view();
    const OperandShape& c = shapes.outputs[0];
    int64_t rows = 0;
    if (view.before) {
      Dims between = c.dims;
      between.back() = view.k;
      before_.emplace(*view.before, shapes, between);
      rows = element_count(Dims(c.dims.begin(), c.dims.end() - 1));
    } else {
      const OperandShape& x = shapes.inputs[static_cast<size_t>(view.x)];
      require_equal(x.dims.back(), view.k, "the size that a product sums over");
      rows = element_count(Dims(x.dims.begin(), x.dims.end() - 1));
      p_.x_row = narrow(x.pitch(), "a row of an operand");
      x_can_be_vector_ = int64_t{p_.x_row} * bit_width(view.x_dtype) % 128 == 0;
    }
    if (rows == 0) return;
    form_ = compiled.form(rows);
    p_.m = narrow(rows, "a number of rows");
    p_.n = narrow(view.n);
    p_.k = narrow(view.k);
    p_.zero = view.one_zero ? static_cast<uint32_t>(*view.one_zero) : 0;
    p_.chunks = (p_.k + static_cast<uint32_t>(form_.chunk()) - 1) / static_cast<uint32_t>(form_.chunk());
    const auto wanted = static_cast<uint32_t>(compiled.splits()),
               turn = static_cast<uint32_t>(form_.warps * form_.depth);
    p_.chunks_of_split = (p_.chunks + wanted - 1) / wanted;
    size_.blocks_y = (p_.chunks + p_.chunks_of_split - 1) / p_.chunks_of_split;
    p_.rows = std::min(p_.m, static_cast<uint32_t>(form_.most_rows()));
    p_.slab = slab_of(p_.chunks_of_split, turn);
    p_.matrices_of_block = Divisor(narrow(view.matrices_of_block()));
    p_.blocks = narrow(view.pitch());
    p_.c_row = narrow(c.pitch(), "a row of a result");
    c_alignment_ = static_cast<uintptr_t>(std::min<int64_t>(16, bit_width(view.epilogue.result)));
    c_can_be_vector_ = p_.c_row % 8 == 0;
    can_be_aligned_ = p_.n % 8 == 0 && c_can_be_vector_ && operands_.can_be_vector();
    if (can_be_aligned_) compiled.function(form_, true);
    compiled.function(form_, false);
    size_.blocks = (p_.n + WeightOnlyForm::columns - 1) / WeightOnlyForm::columns;
    size_.blocks_z = (p_.m + p_.rows - 1) / p_.rows;
    constexpr unsigned most_blocks_z = 65535;
    if (size_.blocks_z > most_blocks_z)
      throw Error(ErrorCode::unsupported, "a product of more rows than GPU kernels count; split the batch");
    size_.threads = static_cast<unsigned>(form_.threads());
    size_.shared_bytes =
        static_cast<unsigned>(form_.shared_bytes(static_cast<int>(p_.slab), static_cast<int>(p_.rows)));
    splits_.prepare(compiled.device(), WeightOnlyForm::columns, size_, p_);
  }

  size_t workspace_bytes() const override { return splits_.workspace_bytes(); }

  void run(const LaunchArguments& arguments) override {
    if (p_.m == 0) return;
    const WeightOnlyView& view = compiled_.view();
    if (before_)
      before_->bind(arguments, p_.before);
    else
      p_.x = arguments.inputs[static_cast<size_t>(view.x)];
    p_.steps = compiled_.steps().steps.data();
    p_.scales = compiled_.steps().scales.data();
    p_.zeros = compiled_.steps().zeros.data();
    p_.c = arguments.outputs[0];
    p_.partial = reinterpret_cast<float*>(arguments.workspace);
    p_.x_vector = x_can_be_vector_ && is_aligned(p_.x);
    p_.c_vector = c_can_be_vector_ && reinterpret_cast<uintptr_t>(p_.c) % c_alignment_ == 0;
    const bool aligned = operands_.bind(arguments, p_.operand) && can_be_aligned_ && p_.c_vector;
    void* argument = &p_;
    compiled_.function(form_, aligned).launch(stream_of(arguments), size_, {&argument, 1});
  }

 private:
  // Rows of so many chunks take no more of shared memory than lets several blocks share a multiprocessor. Warps have
  // chunks of the next rows on their way, so that all of them take equally many of each.
  uint32_t slab_of(uint32_t chunks, uint32_t turn) const {
    constexpr uint32_t most_bytes = 32 << 10;
    const uint32_t chunk_bytes = p_.rows * static_cast<uint32_t>(form_.parts() * form_.chunk()) * 2;
    if (chunks * chunk_bytes <= most_bytes) return chunks;
    return std::min(chunks, std::max(1U, most_bytes / chunk_bytes / turn) * turn);
  }

  const CompiledRows& compiled_;
  EpilogueOperands operands_;
  std::optional<PrologueOperands> before_;
  WeightOnlyForm form_;
  WeightOnlyParameters p_ = {};
  LaunchSize size_;
  bool x_can_be_vector_ = false, c_can_be_vector_ = false, can_be_aligned_ = false;
  uintptr_t c_alignment_ = 16;
  SplitSums splits_;
};

}  // namespace

std::vector<RowsChoice> rows_choices(const WeightOnlyView& view, double rows, const DeviceFacts& device) {
  const bool has_type = view.x_dtype == DType::f16 || device.features.bf16_products;
  if (!has_type || !view.has_whole_zeros()) return {};
  const int64_t chunks = (view.k * view.bits() + 255) / 256;
  std::vector<RowsChoice> choices;
  for (const int warps : {4, 8, 16})
    for (const int splits : {1, 2, 4, 8}) {
      const bool is_useful = warps == 4 || chunks > int64_t{warps} / 2 * splits;
      if (splits > 1 && (!is_useful || chunks < int64_t{splits} * 4)) continue;
      RowsChoice choice{warps, splits};
      choice.seconds = seconds_of_rows(view, choice, rows, device);
      choices.push_back(choice);
    }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const RowsChoice& a, const RowsChoice& b) { return a.seconds < b.seconds; });
  return choices;
}

CompiledRows::CompiledRows(const Workshop& workshop, const WeightOnlyView& view, const RowsChoice& choice,
                           std::shared_ptr<const DeviceSteps> steps)
    : device_(workshop.device()), workshop_(workshop), view_(view), choice_(choice), steps_(std::move(steps)) {}

WeightOnlyForm CompiledRows::form(int64_t rows) const {
  WeightOnlyForm form;
  form.x = view_.x_dtype;
  form.scale = view_.scale_dtype;
  form.bits = view_.bits();
  form.one_block = view_.is_one_block();
  form.group = form.one_block ? form.matrices()
                              : static_cast<int>(std::gcd(view_.matrices_of_block(), int64_t{form.matrices()}));
  form.dense = !form.one_block && form.group == view_.matrices_of_block();
  form.has_zeros = !view_.one_zero;
  form.warps = choice_.warps;
  form.tiles = static_cast<int>(std::clamp<int64_t>((rows * form.parts() + 7) / 8, 1, most_row_tiles));
  form.depth = form.tiles == 1 ? 4 : 2;
  const auto too_large = [&](int64_t most) {
    return form.shared_bytes(form.warps * form.depth, form.most_rows()) > most;
  };
  const int64_t most = device_->facts().shared_bytes_per_block;
  while (form.depth > 1 && too_large(most / 2)) form.depth /= 2;
  while (form.tiles > 1 && too_large(most)) --form.tiles;
  return form;
}

const Function& CompiledRows::function(const WeightOnlyForm& form, bool aligned) const {
  const std::lock_guard lock(mutex_);
  const auto key = std::pair(form.tiles, aligned);
  const auto found = functions_.find(key);
  if (found != functions_.end()) return found->second;
  const std::string text = weight_only_text(form, finish_text(view_.epilogue, aligned),
                                            view_.before ? rows_text(*view_.before) : std::string());
  const auto most = static_cast<unsigned>(device_->facts().shared_bytes_per_block);
  return functions_.emplace(key, workshop_.module("weight_only", text).function("weight_only", most)).first->second;
}

std::unique_ptr<Launch> CompiledRows::prepare(const KernelShapes& shapes) const {
  return std::make_unique<RowsLaunch>(*this, shapes);
}

}  // namespace camshaft::cuda
