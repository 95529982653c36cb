// Updates of caches in blocks on a GPU.
#include "ir/ops/paged_update.h"

#include <algorithm>

#include "backends/cuda/codegen/paged_update_text.h"
#include "backends/cuda/device/paged_update_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "base/divide_up.h"
#include "compile/layer_name.h"
#include "compile/optimum.h"
#include "compile/plan/paged_check.h"

namespace camshaft::cuda {

namespace {

using Op = ops::PagedUpdate;

struct UpdateKernels {
  UpdateKernels(const PagedUpdateForm& form, std::string layer_of_form, const Workshop& workshop)
      : device(workshop.device()),
        copies(std::make_shared<const CopyKernels>(workshop)),
        layer(std::move(layer_of_form)),
        rows(form.rows),
        has_chunks(!form.interleaved) {
    const Module module = workshop.module("paged_update", paged_update_text(form));
    one = module.function("update_one");
    if (has_chunks) chunks = module.function("update_chunks");
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  std::shared_ptr<const CopyKernels> copies;
  std::string layer;
  DType rows;
  bool has_chunks;
  Function one, chunks;
};

class UpdateLaunch final : public Launch {
 public:
  UpdateLaunch(const Op& op, std::shared_ptr<const UpdateKernels> kernels, const KernelShapes& shapes)
      : kernels_(std::move(kernels)),
        keys_(copy_of(shapes.inputs[Op::in_keys])),
        values_(copy_of(shapes.inputs[Op::in_values])) {
    check_paged_update(op, shapes);
    const Dims& keys = shapes.inputs[Op::in_keys].dims;
    const OperandShape &query = shapes.inputs[Op::in_query], &key = shapes.inputs[Op::in_key],
                       &value = shapes.inputs[Op::in_value];
    p_.tokens = narrow(query.dims[0], "the tokens of an update of caches");
    p_.wide = shapes.inputs[Op::in_slots].dtype == DType::i64 ? 1 : 0;
    p_.places = keys[0] * keys[1];
    p_.half = narrow(op.rotated / 2);
    p_.size = narrow(keys[3], "the size of a head");
    p_.query_width = narrow(query.dims[1], "the width of a query");
    p_.key_width = narrow(key.dims[1], "the width of a key");
    p_.value_width = narrow(value.dims[1], "the width of a value");
    p_.query_pitch = query.pitch();
    p_.key_pitch = key.pitch();
    p_.value_pitch = value.pitch();
    const auto fits = [](int64_t elements) { return elements % paged_update_chunk == 0; };
    can_be_chunks_ = kernels_->has_chunks && fits(p_.half) && fits(p_.size) && fits(p_.value_width) &&
                     fits(p_.query_pitch) && fits(p_.key_pitch) && fits(p_.value_pitch);
    heads_ = p_.size == 0 ? 0 : p_.query_width / p_.size;
    key_heads_ = narrow(keys[2]);
  }

  void run(const LaunchArguments& a) override {
    const Stream& stream = stream_of(a);
    for (const auto& [copy, in, out] :
         {std::tuple(&keys_, Op::in_keys, Op::out_keys), std::tuple(&values_, Op::in_values, Op::out_values)})
      if (a.inputs[in] != a.outputs[out]) copy->run(stream, a.inputs[in], a.outputs[out]);
    if (p_.tokens == 0) return;
    const std::byte* inputs[Op::in_slots + 1] = {};
    std::copy_n(a.inputs.begin(), Op::in_slots + 1, inputs);
    std::byte *turned = a.outputs[Op::out_query], *keys = a.outputs[Op::out_keys], *values = a.outputs[Op::out_values];
    bool in_chunks = can_be_chunks_;
    for (size_t i = 0; i < Op::in_slots; ++i) in_chunks = in_chunks && is_aligned(inputs[i], 16);
    for (const std::byte* output : a.outputs) in_chunks = in_chunks && is_aligned(output, 16);
    const uint32_t chunk = in_chunks ? paged_update_chunk : 1;
    p_.pairs = p_.half / chunk;
    p_.head = Divisor(std::max(p_.pairs + (p_.size - 2 * p_.half) / chunk, 1U));
    p_.query = heads_ * p_.head.value;
    p_.key = key_heads_ * p_.head.value;
    p_.value = p_.value_width / chunk;
    const uint32_t units = p_.query + p_.key + p_.value;
    constexpr uint32_t most_blocks = 1 << 16;
    LaunchSize size{.blocks = std::min(p_.tokens, most_blocks), .threads = paged_update_threads};
    size.blocks_y = std::clamp((units + paged_update_threads - 1) / paged_update_threads, 1U, 64U);
    Complaint complaint = static_cast<Queue*>(a.queue)->complaints().of(kernels_->layer);
    void* const arguments[] = {&p_,        &inputs[0], &inputs[1], &inputs[2], &inputs[3], &inputs[4],
                               &inputs[5], &turned,    &keys,      &values,    &complaint};
    (in_chunks ? kernels_->chunks : kernels_->one).launch(stream, size, arguments);
  }

 private:
  StridedCopy copy_of(const OperandShape& cache) const {
    return {kernels_->copies, width_of(cache), {{element_count(cache.dims)}, {1}, {1}, 0}};
  }

  std::shared_ptr<const UpdateKernels> kernels_;
  StridedCopy keys_, values_;
  PagedUpdateParameters p_;
  uint32_t heads_ = 0, key_heads_ = 0;
  bool can_be_chunks_ = false;
};

class UpdateKernel final : public Kernel {
 public:
  UpdateKernel(const Op& op, std::shared_ptr<const UpdateKernels> kernels) : op_(op), kernels_(std::move(kernels)) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<UpdateLaunch>(op_, kernels_, shapes);
  }
  bool can_run_in_place(size_t i, size_t o) const override {
    return (i == Op::in_keys && o == Op::out_keys) || (i == Op::in_values && o == Op::out_values);
  }
  bool reads_slices(size_t i) const override { return i <= Op::in_value; }

 private:
  Op op_;
  std::shared_ptr<const UpdateKernels> kernels_;
};

std::optional<PagedUpdateForm> form_of(const RegionView& region) {
  const auto* op = region.node.op.as<Op>();
  if (!op) return std::nullopt;
  const auto type = [&](size_t i) { return region.graph.type(region.node.inputs[i]).dtype; };
  const auto is_known = [](DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; };
  for (size_t i = 0; i < Op::input_count; ++i)
    if (i != Op::in_slots && !is_known(type(i))) return std::nullopt;
  if (type(Op::in_key) != type(Op::in_query) || type(Op::in_value) != type(Op::in_query) ||
      type(Op::in_sine) != type(Op::in_cosine) || type(Op::in_values) != type(Op::in_keys))
    return std::nullopt;
  return PagedUpdateForm{type(Op::in_query), type(Op::in_cosine), type(Op::in_keys), op->interleaved};
}

std::optional<double> estimate_paged_update(const RegionView& region, const DeviceFacts&) {
  if (!form_of(region)) return std::nullopt;
  double bytes = 0;
  for (const size_t i : {Op::in_query, Op::in_key, Op::in_value}) {
    const ValueId id = region.node.inputs[i];
    bytes += elements_at_optimum(region, id) * bit_width(region.graph.type(id).dtype) / 8;
  }
  return seconds_per_launch + 2 * bytes * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_paged_update(const RegionView& region, const Workshop& workshop) {
  return std::make_shared<const UpdateKernel>(
      *region.node.op.as<Op>(), std::make_shared<const UpdateKernels>(*form_of(region), layer_name(region), workshop));
}

}  // namespace

const CudaTactic paged_update_tactic{"cuda_paged_update", estimate_paged_update, compile_paged_update};

}  // namespace camshaft::cuda
