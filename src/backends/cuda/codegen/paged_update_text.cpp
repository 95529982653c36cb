#include "backends/cuda/codegen/paged_update_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

std::string paged_update_text(const PagedUpdateForm& form) {
  const auto kernel = [&](const char* name, int chunk) {
    return fmt::format(R"(
extern "C" __global__ void __launch_bounds__({5})
    {0}(const __grid_constant__ PagedUpdateParameters p, const {1}* query, const {1}* key, const {1}* value,
        const {2}* cosines, const {2}* sines, const void* slots, {1}* turned, {3}* keys, {3}* values,
        Complaint complaint) {{
  take_turn();
  update_caches<{1}, {2}, {3}, {4}, {6}>(p, query, key, value, cosines, sines, slots, turned, keys, values, complaint);
}}
)",
                       name, device_type(form.rows), device_type(form.tables), device_type(form.cache), chunk,
                       paged_update_threads, form.interleaved);
  };
  return device_text({device::complaint_parameters_h, device::complaint_cuh, device::paged_update_parameters_h,
                      device::paged_update_cuh}) +
         kernel("update_one", 1) + (form.interleaved ? "" : kernel("update_chunks", paged_update_chunk));
}

}  // namespace camshaft::cuda
