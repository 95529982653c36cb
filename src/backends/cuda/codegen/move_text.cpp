#include "backends/cuda/codegen/move_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

namespace {

// An unsigned type of so many bytes.
std::string_view element(int bytes) {
  return bytes == 1 ? "u8" : bytes == 2 ? "u16" : bytes == 4 ? "u32" : bytes == 8 ? "u64" : "Wide";
}

// A kernel "name_W" for each width up to the widest, which calls the function of that name.
std::string gathers(std::string_view name, std::string_view parameter, int widest) {
  std::string text;
  for (int bytes = 1; bytes <= widest; bytes *= 2)
    text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) {0}_{1}(const __grid_constant__ {2} parameter, const {3}* in,
                                                          const void* indices, {3}* out, Complaint complaint) {{
  take_turn();
  {0}(parameter, in, indices, out, complaint);
}}
)",
                        name, bytes, parameter, element(bytes));
  return text;
}

// What gathers and scatters have in common.
std::string with_indices() {
  return device_text({device::wide_cuh, device::complaint_parameters_h, device::complaint_cuh,
                      device::gather_parameters_h, device::gather_cuh});
}

// Kernels "name_any" and "name_vector", of 16 bytes at once, of elements of one width.
std::string with_padding(int width, std::string_view name, std::string_view parameter) {
  std::string text = device_text({device::wide_cuh, device::pad_parameters_h, device::pad_cuh});
  for (const auto& [suffix, count] : {std::pair{"any", 1}, std::pair{"vector", 16 / width}})
    text += fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) {0}_{1}(const __grid_constant__ {2} parameter, const {3}* in,
                                                          const {3}* value, {3}* out) {{
  take_turn();
  {0}<{3}, {4}>(parameter, in, value, out);
}}
)",
                        name, suffix, parameter, element(width), count);
  return text;
}

}  // namespace

std::string copy_text() {
  return device_text({device::wide_cuh, device::space_parameters_h, device::pointwise_cuh, device::copy_parameters_h,
                      device::copy_cuh});
}

std::string concat_text() {
  return device_text({device::wide_cuh, device::concat_parameters_h, device::concat_cuh});
}

std::string pad_text(int width) {
  return with_padding(width, "pad", "PadParameters");
}

std::string mapped_copy_text(int width) {
  return with_padding(width, "copy_mapped", "MappedCopyParameters");
}

std::string index_map_text(int width) {
  return with_padding(width, "index_map", "IndexMapParameters");
}

std::string gather_text(GatherKind kind) {
  const std::string text = with_indices();
  switch (kind) {
    case GatherKind::rows:
      return text + gathers("gather_rows", "GatherRowsParameters", 16);
    case GatherKind::elements:
      return text + gathers("gather_elements", "ElementsParameters", 8);
    case GatherKind::slices:
      break;
  }
  return text + gathers("gather_slices", "SlicesParameters", 16);
}

std::string scatter_text() {
  return with_indices() + std::string(device::scatter_cuh);
}

}  // namespace camshaft::cuda
