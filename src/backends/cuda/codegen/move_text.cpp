#include "backends/cuda/codegen/move_text.h"

#include <fmt/format.h>

#include "device_texts.h"

namespace camshaft::cuda {

namespace {

std::string with_space(std::string_view text) {
  std::string all(device::intrinsics_cuh);
  for (const std::string_view part : {device::scalar_cuh, device::pointwise_cuh, device::wide_cuh, text}) all += part;
  return all;
}

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

// Kernels "name_any" and "name_vector", of 16 bytes at once, of elements of one width.
std::string with_padding(int width, std::string_view name, std::string_view parameter) {
  std::string text = with_space(device::pad_cuh);
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
  return with_space(device::copy_cuh);
}

std::string concat_text() {
  return with_space(device::concat_cuh);
}

std::string pad_text(int width) {
  return with_padding(width, "pad", "Padding");
}

std::string mapped_copy_text(int width) {
  return with_padding(width, "copy_mapped", "Mapped");
}

std::string index_map_text(int width) {
  return with_padding(width, "index_map", "Indexed");
}

std::string gather_text(GatherKind kind) {
  std::string text = with_space(device::complaint_cuh);
  text += device::gather_cuh;
  switch (kind) {
    case GatherKind::rows:
      return text + gathers("gather_rows", "Rows", 16);
    case GatherKind::elements:
      return text + gathers("gather_elements", "Elements", 8);
    case GatherKind::slices:
      break;
  }
  return text + gathers("gather_slices", "Slices", 16);
}

std::string scatter_text() {
  std::string text = with_space(device::complaint_cuh);
  for (const std::string_view part : {device::gather_cuh, device::scatter_cuh}) text += part;
  return text;
}

}  // namespace camshaft::cuda
