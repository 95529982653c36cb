// Squeeze and excite as one kernel.
#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cuda/device/squeeze_excite_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/bring_weights.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/epilogue.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/squeeze_excite_view.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "base/divide_up.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cuda {

namespace {

int64_t piece_of(const SqueezeExciteView& view) {
  return 128 / bit_width(view.form.dtype);
}

// Blocks of an image: so many of them share its channels. Narrower slabs than 64 bytes of a pixel would be read in
// parts of sectors.
int64_t slabs_of(const SqueezeExciteView& view, int64_t blocks) {
  constexpr int64_t least_pieces = 4;
  const int64_t pieces = divide_up(view.channels, piece_of(view));
  int64_t slabs = 1;
  while (2 * slabs <= blocks && pieces >= least_pieces * 2 * slabs) slabs *= 2;
  return slabs;
}

/// What one block does, and where that lies in shared memory.
struct Layout {
  SqueezeExciteParameters p;  // all but the pointers
  bool holds_image = false;
  int64_t shared_bytes = 0;
  int64_t image_bytes = 0, weight_bytes = 0;  // of a block

  Layout(const SqueezeExciteView& view, int64_t pixels, int64_t blocks, int64_t threads, int64_t most_shared) {
    const int64_t piece = piece_of(view), slabs = slabs_of(view, blocks), parts = blocks / slabs;
    const int64_t width = divide_up(divide_up(view.channels, piece), slabs), slab = width * piece;
    const int64_t hidden = divide_up(view.hidden, 8) * 8;
    p.pixels = narrow(pixels);
    p.channels = narrow(view.channels);
    p.hidden = narrow(view.hidden);
    p.squeeze_pitch = narrow(view.squeeze_rows.pitch);
    p.excite_pitch = narrow(view.excite_rows.pitch);
    p.slab_bits = bits(slabs);
    p.part_bits = bits(parts);
    p.part = static_cast<float>(1 / static_cast<double>(pixels));
    p.channel_bits = lane_bits(threads, slab, threads / width);
    p.squeeze_bits = lane_bits(threads, view.hidden, divide_up(width, parts));
    p.excite_bits = lane_bits(threads, slab, divide_up(view.hidden, piece));
    const auto take = [&](int64_t bytes) {
      const int64_t at = shared_bytes;
      shared_bytes += divide_up(bytes, 16) * 16;
      return narrow(at);
    };
    p.means = take(4 * slab);
    p.gates = take(4 * slab);
    p.totals_pitch = narrow(slab);
    p.totals = take(parts > 1 ? 4 * slab * parts : 0);
    p.own = take(4 * hidden);
    p.all = take(blocks > 1 ? 4 * hidden * blocks : 0);
    p.hidden_at = take(4 * hidden);
    p.scratch = take(4 * threads * piece);
    const int64_t squeeze_bytes = 16 * view.hidden * divide_up(width, parts),
                  excite_bytes = 16 * slab * divide_up(view.hidden, piece);
    weight_bytes = squeeze_bytes + excite_bytes;
    image_bytes = 16 * width * divide_up(pixels, parts);
    p.holds_weights = shared_bytes + weight_bytes <= most_shared;
    if (p.holds_weights) {
      p.squeeze_at = take(squeeze_bytes);
      p.excite_at = take(excite_bytes);
    }
    holds_image = shared_bytes + image_bytes <= most_shared;
    if (holds_image) p.image_at = take(image_bytes);
  }

 private:
  static uint32_t bits(int64_t power_of_two) { return narrow(std::countr_zero(static_cast<uint64_t>(power_of_two))); }
  // Neighbours that share a sum of `terms`: as many as there are threads for all sums at once.
  static uint32_t lane_bits(int64_t threads, int64_t sums, int64_t terms) {
    constexpr int64_t warp = 32;
    const int64_t most = std::clamp<int64_t>(std::min(threads / std::max<int64_t>(sums, 1), terms), 1, warp);
    return bits(static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most))));
  }
};

// Whether such blocks can work at all: a thread has one piece of a pixel, and what is not held otherwise has room.
bool can_run(const SqueezeExciteView& view, int64_t blocks, int64_t threads, const DeviceFacts& device) {
  const int64_t pieces = divide_up(view.channels, piece_of(view));
  if (divide_up(pieces, slabs_of(view, blocks)) > threads) return false;
  return Layout(view, 1, blocks, threads, 0).shared_bytes <= device.shared_bytes_per_block;
}

struct SqueezeExciteModule {
  std::shared_ptr<const Device> device;  // outlives the others
  Function functions[2][2];              // [streamed, held][any, vector]
  DeviceWeights squeeze, excite;
  int64_t blocks = 1, threads = 512;
};

class SqueezeExciteLaunch final : public Launch {
 public:
  SqueezeExciteLaunch(const SqueezeExciteView& view, const SqueezeExciteModule& compiled, const KernelShapes& shapes)
      : view_(view), compiled_(compiled) {
    const Dims& dims = shapes.inputs[static_cast<size_t>(view.image)].dims;
    require_equal(dims.back(), view.channels, "the number of channels of squeeze and excite");
    check_elements(element_count(dims), "squeeze and excite");
    images_ = dims.front();
    const int64_t pixels = element_count(Dims(dims.begin() + 1, dims.end() - 1));
    if (images_ == 0 || pixels == 0) {
      images_ = 0;
      return;
    }
    const int64_t most_shared = compiled.device->facts().shared_bytes_per_block;
    const auto lay = [&](int64_t blocks) {
      const Layout layout(view, pixels, blocks, compiled.threads, most_shared);
      p_ = layout.p;
      holds_ = layout.holds_image;
      size_.blocks = narrow(images_);
      size_.blocks_y = size_.cluster_y = narrow(blocks);
      size_.threads = narrow(compiled.threads);
      size_.shared_bytes = narrow(layout.shared_bytes);
    };
    int64_t blocks = compiled.blocks;
    lay(blocks);
    // A part of a device may have no room for as many blocks beside each other.
    while (blocks > 1 && can_run(view, blocks / 2, compiled.threads, compiled.device->facts()) &&
           compiled.functions[holds_][1].clusters_at_once(size_) == 0)
      lay(blocks /= 2);
    p_.squeeze = compiled.squeeze.data();
    p_.excite = compiled.excite.data();
    can_be_vector_ = view.channels % piece_of(view) == 0;
  }

  void run(const LaunchArguments& a) override {
    if (images_ == 0) return;
    p_.x = a.inputs[static_cast<size_t>(view_.image)];
    p_.y = a.outputs[0];
    bool vector = can_be_vector_ && is_aligned(p_.x) && is_aligned(p_.y);
    for (size_t k = 0; k < view_.operands.size(); ++k) p_.operand[k] = a.inputs[static_cast<size_t>(view_.operands[k])];
    for (const int32_t i : view_.dense) vector = vector && is_aligned(a.inputs[static_cast<size_t>(i)]);
    void* const arguments[] = {&p_};
    compiled_.functions[holds_][vector].launch(stream_of(a), size_, arguments);
  }

 private:
  const SqueezeExciteView& view_;
  const SqueezeExciteModule& compiled_;
  SqueezeExciteParameters p_;
  LaunchSize size_;
  int64_t images_ = 0;
  bool holds_ = false, can_be_vector_ = false;
};

class SqueezeExciteKernel final : public Kernel {
 public:
  SqueezeExciteKernel(const RegionView& region, SqueezeExciteView view, SqueezeExciteModule compiled)
      : view_(std::move(view)), compiled_(std::move(compiled)) {
    // Each element of the image, and of what has its shape, is read for the last time just before the result's.
    const TensorType& result = region.graph.type(region.node.outputs[0]);
    for (size_t i = 0; i < region.node.inputs.size(); ++i) {
      const auto input = static_cast<int32_t>(i);
      const bool is_dense =
          input == view_.image || std::find(view_.dense.begin(), view_.dense.end(), input) != view_.dense.end();
      can_overwrite_.push_back(is_dense && region.graph.type(region.node.inputs[i]) == result);
      const bool is_read = std::find(view_.operands.begin(), view_.operands.end(), input) != view_.operands.end();
      reads_.push_back(is_read || (input != view_.squeeze && input != view_.excite));
    }
  }
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<SqueezeExciteLaunch>(view_, compiled_, shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override { return can_overwrite_[i]; }
  bool reads_input(size_t i) const override { return reads_[i]; }

 private:
  SqueezeExciteView view_;
  SqueezeExciteModule compiled_;
  std::vector<bool> can_overwrite_, reads_;
};

// Clock cycles (not fitted): of a block's way through the kernel besides its bytes, of each wait of a cluster, and what
// a multiprocessor reads or writes in one.
double seconds_of_gate(const SqueezeExciteView& view, int64_t pixels, double images, int64_t blocks, int64_t threads,
                       const DeviceFacts& device) {
  constexpr double cycles_per_second = 1.7e9, start = 4000, wait = 900, bytes_per_cycle = 50, threads_beside = 1024;
  const Layout layout(view, pixels, blocks, threads, device.shared_bytes_per_block);
  const double room =
      std::min(threads_beside / static_cast<double>(threads),
               static_cast<double>(device.shared_bytes_per_block) / static_cast<double>(layout.shared_bytes));
  const double all = images * static_cast<double>(blocks);
  const double beside = std::min(std::max(1.0, std::floor(room)), std::ceil(all / device.multiprocessors));
  const double waves = std::ceil(all / (beside * device.multiprocessors));
  const double bytes = static_cast<double>(layout.image_bytes) * (layout.holds_image ? 2 : 3) +
                       static_cast<double>(layout.weight_bytes) * (layout.p.holds_weights ? 0.5 : 1);
  const double waits = blocks == 1 ? 0 : layout.p.part_bits > 0 ? 2 : 1;
  return 0.8e-6 + waves * (start + wait * waits + beside * bytes / bytes_per_cycle) / cycles_per_second;
}

// Variants by the blocks that share an image, and their threads.
std::vector<TacticOffer> offer_squeeze_excite(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  const auto view = view_squeeze_excite(region, device);
  if (!view) return {};
  const Shape& shape = region.graph.shape(region.node.inputs[static_cast<size_t>(view->image)]);
  const double images = std::max(1.0, size_at_optimum(region, shape.front()));
  constexpr double most_pixels = 1 << 27;
  double pixels = 1;
  for (size_t d = 1; d + 1 < shape.size(); ++d) pixels *= std::max(1.0, size_at_optimum(region, shape[d]));
  const auto counted = static_cast<int64_t>(std::min(pixels, most_pixels));
  const double least = seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
  std::vector<TacticOffer> offers;
  for (const int64_t blocks : {16, 8, 4, 2, 1})
    for (const int64_t threads : {512, 256, 1024}) {
      if ((blocks > 1 && !device.features.clusters) || !can_run(*view, blocks, threads, device)) continue;
      const double seconds = seconds_of_gate(*view, counted, images, blocks, threads, device);
      offers.push_back({{{"blocks", blocks}, {"threads", threads}}, std::max(seconds, least)});
    }
  std::stable_sort(offers.begin(), offers.end(),
                   [](const TacticOffer& a, const TacticOffer& b) { return a.seconds < b.seconds; });
  return offers;
}

std::shared_ptr<const Kernel> compile_squeeze_excite(const RegionView& region, const TacticParameters& parameters,
                                                     const Workshop& workshop, PackedConstants& constants) {
  SqueezeExciteView view = *view_squeeze_excite(region, workshop.device()->facts());
  SqueezeExciteModule compiled;
  compiled.device = workshop.device();
  compiled.blocks = parameters["blocks"];
  compiled.threads = parameters["threads"];
  const Module module = workshop.module("squeeze_excite", squeeze_excite_text(view.form));
  const auto most_shared = narrow(compiled.device->facts().shared_bytes_per_block);
  const char* names[2][2] = {{"squeeze_excite_streamed_any", "squeeze_excite_streamed_vector"},
                             {"squeeze_excite_held_any", "squeeze_excite_held_vector"}};
  for (size_t held = 0; held < 2; ++held)
    for (size_t vector = 0; vector < 2; ++vector)
      compiled.functions[held][vector] = module.function(names[held][vector], most_shared, compiled.blocks > 8);
  const auto weights = [&](int32_t input, const WeightRows& rows) {
    return bring_weights(compiled.device, pack_weight_rows(region, static_cast<size_t>(input), rows, constants));
  };
  compiled.squeeze = weights(view.squeeze, view.squeeze_rows);
  compiled.excite = weights(view.excite, view.excite_rows);
  return std::make_shared<SqueezeExciteKernel>(region, std::move(view), std::move(compiled));
}

}  // namespace

const CudaTactic squeeze_excite_tactic{"cuda_squeeze_excite", offer_squeeze_excite, compile_squeeze_excite};

}  // namespace camshaft::cuda
