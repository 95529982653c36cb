// Products that NVIDIA's libraries compute, with all that follows them.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/linear_epilogue.h"
#include "backends/cuda/tactics/product_view.h"
#include "compile/constants/device_weights.h"

namespace camshaft::cuda {

struct LibraryView {
  ProductView product;
  LinearEpilogue linear;
  bool narrows_bias = false;  ///< the bias is a constant of f32, and the result narrower

  /// The region input of an operand of the epilogue (LinearEpilogue::residual, bias); -1 for none.
  int32_t input_of(int32_t load) const { return load < 0 ? -1 : product.epilogue.loads[static_cast<size_t>(load)]; }
};

/// A product whose epilogue has the linear form, with a residual and a bias of the result's type, which is that of the
/// product's operands or f32. nullopt for others.
std::optional<LibraryView> view_library(const RegionView& region, const DeviceFacts& device);

/// Whether input `i` is a constant of f32 that the narrower type holds.
bool can_narrow_bias(const RegionView& region, int32_t i, DType to);

/// Which of a library's algorithms a variant of a tactic is.
struct LibraryChoice {
  int rank = 0;       ///< of those that the library has, ordered by what it expects of them
  bool tf32 = false;  ///< operands are rounded to TF32
};
/// The first `ranks` of each kind that the product allows, `seconds(tf32)` being what its first one is expected to
/// take. (A library does not say how far apart they are.)
std::vector<TacticOffer> library_offers(const ProductView& product, int ranks,
                                        const std::function<double(bool tf32)>& seconds);
/// What the parameters of one of library_offers() say.
LibraryChoice library_choice(const ProductView& product, const TacticParameters& parameters);

struct LibraryAddresses {
  const std::byte *a = nullptr, *b = nullptr, *residual = nullptr, *bias = nullptr;  ///< null for none
  std::byte* c = nullptr;
  std::byte* workspace = nullptr;

  bool are_aligned() const;  ///< to 16 bytes
};

/// A view, with its constants on the device: weights by rows (ProductView::rows) and a narrowed bias.
class LibraryOperands {
 public:
  LibraryOperands(const RegionView& region, LibraryView view, const Workshop& workshop, PackedConstants& constants);
  LibraryOperands(const LibraryOperands&) = delete;
  LibraryOperands& operator=(const LibraryOperands&) = delete;
  const LibraryView& view() const { return view_; }
  const std::shared_ptr<const Device>& device() const { return device_; }
  LibraryAddresses bind(const LaunchArguments& arguments) const;
  /// Our own kernel for the same product; nothing of it is compiled before it is needed.
  const Kernel& own() const { return *own_; }

 private:
  LibraryView view_;
  ops::MatMul matmul_;
  std::shared_ptr<const Device> device_;  // outlives the buffers
  DeviceWeights weights_;
  DeviceBuffer bias_;
  std::shared_ptr<const Kernel> own_;
};

using MakeLaunch = std::function<std::unique_ptr<Launch>(const LibraryOperands& operands, const KernelShapes& shapes)>;

/// The kernel whose prepare() is `make`, or that of our own kernel for shapes for which that throws Error(unsupported):
/// what a library has for a problem, only asking tells. Where it has nothing for the optimum, it is a kernel of ours as
/// the tactic for these would choose it. `takes_slices`: operands may be slices of wider rows.
std::shared_ptr<const Kernel> library_kernel(const RegionView& region, LibraryView view, const Workshop& workshop,
                                             PackedConstants& constants, bool takes_slices, MakeLaunch make);

}  // namespace camshaft::cuda
