#include "backends/cuda/tactics/row_kernels.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/tactics/narrow.h"
#include "base/error.h"

namespace camshaft::cuda {

RowParameters row_parameters(int64_t count, int64_t length) {
  if (length > 0 && count > most_elements / length)
    throw Error(ErrorCode::unsupported, "a normalisation or softmax of more than 2^31 elements");
  RowParameters rows;
  rows.rows = narrow(count);
  rows.length = narrow(length);
  rows.run = Divisor(std::max(rows.length, 1U));
  rows.outer = rows.pitch = length;
  rows.part = 1 / static_cast<double>(length);
  return rows;
}

RowKernels::RowKernels(const Workshop& workshop, const Module& module, const RowText& text)
    : device(workshop.device()), vector_elements(text.vector_elements), chunks{text.chunks, text.vector_chunks} {
  for (const int vector : {0, 1}) {
    const std::string suffix = vector ? "_vector" : "";
    held_one[vector] = module.function("held_one" + suffix);
    held[vector] = module.function("held" + suffix);
    any[vector] = module.function("any_length" + suffix);
  }
}

RowForm::RowForm(const RowKernels& kernels, RowParameters rows, bool vector) : rows_(rows) {
  const int64_t units = rows.length / narrow(vector ? kernels.vector_elements : 1);
  const RowLaunch launch =
      row_launch(rows.rows, units, kernels.chunks[vector], row_threads, kernels.device->facts().multiprocessors);
  rows_.lanes = launch.lanes;
  rows_.lanes_shift = narrow(std::countr_zero(launch.lanes));
  size_ = launch.size;
  function_ = units <= launch.lanes                            ? &kernels.held_one[vector]
              : units <= launch.lanes * kernels.chunks[vector] ? &kernels.held[vector]
                                                               : &kernels.any[vector];
}

bool RowForm::can_be_vector(const RowParameters& rows, int elements) {
  const auto fits = [&](int64_t n) { return n % elements == 0; };
  return fits(rows.run.value) && fits(rows.outer) && fits(rows.inner) && fits(rows.pitch) &&
         (rows.by_run != 0 || fits(rows.width));
}

void RowForm::launch(const Stream& stream, std::span<void*> arguments) const {
  arguments[0] = &rows_;
  function_->launch(stream, size_, arguments);
}

DType norm_type(const RegionView& region, size_t i) {
  const ValueId id = i < region.node.inputs.size() ? region.node.inputs[i] : no_value;
  return region.graph.type(id == no_value ? region.node.inputs[0] : id).dtype;
}

bool has_constants(const RegionView& region, std::initializer_list<int32_t> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [&](int32_t i) {
    if (i < 0 || static_cast<size_t>(i) >= region.node.inputs.size()) return true;
    const ValueId id = region.node.inputs[static_cast<size_t>(i)];
    return id == no_value || region.graph.is_constant(id);
  });
}

bool has_norm_types(const RegionView& region) {
  return has_device_type(norm_type(region, 0)) && has_device_type(norm_type(region, 1)) &&
         has_device_type(norm_type(region, 2));
}

}  // namespace camshaft::cuda
