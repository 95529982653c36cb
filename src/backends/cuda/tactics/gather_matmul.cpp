// Products whose rows choose their matrix on a GPU.
#include "ir/ops/gather_matmul.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/codegen/gather_matmul_text.h"
#include "backends/cuda/device/gather_matmul_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "base/divide_up.h"
#include "compile/optimum.h"
#include "compile/plan/gather_matmul_check.h"

namespace camshaft::cuda {

namespace {

struct GatherMatMulKernels {
  GatherMatMulKernels(DType rows, DType matrices, const Workshop& workshop) : device(workshop.device()) {
    const Module module = workshop.module("gather_matmul", gather_matmul_text(rows, matrices));
    one = module.function("gather_matmul_one");
    chunks = module.function("gather_matmul_chunks");
    rows_at_once = module.function("gather_matmul_rows");
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  Function one, chunks, rows_at_once;
};

class GatherMatMulLaunch final : public Launch {
 public:
  GatherMatMulLaunch(std::shared_ptr<const GatherMatMulKernels> kernels, const KernelShapes& shapes)
      : kernels_(std::move(kernels)) {
    check_gather_matmul(shapes);
    const Dims &x = shapes.inputs[ops::GatherMatMul::in_rows].dims,
               &w = shapes.inputs[ops::GatherMatMul::in_matrices].dims;
    p_.rows = narrow(x[0], "the rows of a product by indices");
    p_.matrices = w[0];
    p_.in = narrow(w[1], "the rows of a matrix that is chosen by index");
    p_.out = narrow(w[2], "the columns of a matrix that is chosen by index");
    p_.wide = shapes.inputs[ops::GatherMatMul::in_indices].dtype == DType::i64 ? 1 : 0;
    check_elements(x[0] * divide_up(std::max<int64_t>(w[2], 1), gather_matmul_chunk), "a product by indices");
  }

  void run(const LaunchArguments& a) override {
    if (p_.rows == 0 || p_.out == 0) return;
    // What is empty has no memory on the device, and nothing of it is read.
    const std::byte *x = a.inputs[ops::GatherMatMul::in_rows], *indices = a.inputs[ops::GatherMatMul::in_indices],
                    *w = a.inputs[ops::GatherMatMul::in_matrices];
    std::byte* y = a.outputs[0];
    const bool in_chunks = p_.out % gather_matmul_chunk == 0 && is_aligned(w, 16) && is_aligned(y, 16);
    const uint32_t pieces = in_chunks ? p_.out / gather_matmul_chunk : p_.out;
    p_.across = std::min(std::bit_ceil(pieces), uint32_t{gather_matmul_threads});
    p_.stretches = static_cast<uint32_t>(divide_up(pieces, p_.across));
    void* const arguments[] = {&p_, &x, &indices, &w, &y};
    // Of few rows each is read by blocks of its own: there are too few to fill the GPU otherwise.
    constexpr uint32_t many_rows = 128;
    const bool at_once = in_chunks && p_.rows >= many_rows;
    const Function& function = at_once ? kernels_->rows_at_once : in_chunks ? kernels_->chunks : kernels_->one;
    constexpr int64_t most_blocks = 1 << 16;
    const int64_t items = divide_up(int64_t{p_.rows}, at_once ? gather_matmul_rows : 1) * p_.stretches;
    function.launch(stream_of(a),
                    {.blocks = static_cast<uint32_t>(std::min(items, most_blocks)), .threads = gather_matmul_threads},
                    arguments);
  }

 private:
  std::shared_ptr<const GatherMatMulKernels> kernels_;
  GatherMatMulParameters p_;
};

bool is_gathered_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::optional<double> estimate_gather_matmul(const RegionView& region, const DeviceFacts&) {
  if (!region.node.op.as<ops::GatherMatMul>()) return std::nullopt;
  const auto type = [&](size_t i) { return region.graph.type(region.node.inputs[i]).dtype; };
  if (!is_gathered_float(type(ops::GatherMatMul::in_rows)) || !is_gathered_float(type(ops::GatherMatMul::in_matrices)))
    return std::nullopt;
  const double elements = elements_at_optimum(region, region.node.inputs[ops::GatherMatMul::in_rows]) +
                          elements_at_optimum(region, region.node.outputs[0]);
  return seconds_per_launch + elements * bit_width(type(ops::GatherMatMul::in_rows)) / 8 * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_gather_matmul(const RegionView& region, const Workshop& workshop) {
  const auto type = [&](size_t i) { return region.graph.type(region.node.inputs[i]).dtype; };
  return device_kernel([kernels = std::make_shared<const GatherMatMulKernels>(type(ops::GatherMatMul::in_rows),
                                                                              type(ops::GatherMatMul::in_matrices),
                                                                              workshop)](const KernelShapes& shapes) {
    return std::make_unique<GatherMatMulLaunch>(kernels, shapes);
  });
}

}  // namespace

const CudaTactic gather_matmul_tactic{"cuda_gather_matmul", estimate_gather_matmul, compile_gather_matmul};

}  // namespace camshaft::cuda
