// One product by cuBLASLt, for one set of shapes.
#pragma once

#include <memory>
#include <optional>

#include "backends/cuda/libraries/blas.h"
#include "backends/cuda/tactics/library_product.h"

namespace camshaft::cuda {

/// What the library is asked for. Throws Error(unsupported) for more than it counts.
BlasProblem blas_problem(const LibraryView& view, const KernelShapes& shapes);

class BlasLaunch final : public Launch {
 public:
  /// `column_scales`: of products of 8-bit floats, one f32 for each column on the device; null where alpha is all.
  BlasLaunch(const LibraryOperands& operands, const KernelShapes& shapes, LibraryChoice choice,
             const DeviceBuffer* column_scales = nullptr);

  size_t workspace_bytes() const override;
  void run(const LaunchArguments& arguments) override;

 private:
  const LibraryOperands& operands_;
  DeviceBuffer row_scales_;                   // ones, which the library wants beside those of columns
  std::optional<BlasProduct> aligned_, any_;  // by where the operands of a run lie
  std::unique_ptr<Launch> own_;               // in the place of the second one, for 8-bit floats
};

}  // namespace camshaft::cuda
