// Chains of one convolution and the transposes around it, for the kernels that read and write the channels first.
#pragma once

#include <memory>
#include <optional>

#include "backends/cpu/tactics/part_inputs.h"

namespace camshaft::cpu {

/// [transpose to channels last,] convolution, transposed or not [, transpose to channels first], over up to three axes;
/// or a convolution that is a region by itself.
struct PlaneChain {
  std::shared_ptr<const Graph> body;  ///< which the node lies in, or null: it is the region's
  const Node* node = nullptr;         ///< the convolution
  bool first_in = false, first_out = false;

  /// The convolution's inputs in the chain; nullopt where it reads more of what is transposed than its image.
  std::optional<PartInputs> inputs(const SpatialView& view) const;
  /// Whether the image, the result is read and written with the channels first: one channel or one pixel is first and
  /// last at once.
  bool reads_first(const RegionView& region, const SpatialView& view) const;
  bool writes_first(const RegionView& region) const;
  /// The convolution as a region.
  RegionView part(const RegionView& region) const {
    return {body ? *body : region.graph, *node, region.symbols, region.threads};
  }
};

/// nullopt for chains of another form. Whether the node is a convolution is left to the caller.
std::optional<PlaneChain> view_plane_chain(const RegionView& region);

/// Elements of images with the channels last, their lines of all channels, and how many they are, at the sizes that the
/// region is tuned for.
struct ImageSize {
  double elements = 0, lines = 0, batch = 0;
};
ImageSize image_at_optimum(const RegionView& region, ValueId image);

/// A kernel that computes for so long, and reads and writes what the region does: it waits for memory in part.
double seconds_beside_memory(const RegionView& region, double seconds);

/// The shapes of the region as those of the convolution with the channels last.
KernelShapes shapes_as_last(const PartInputs& inputs, const SpatialView& view, bool first_in, bool first_out,
                            const KernelShapes& region);

}  // namespace camshaft::cpu
