#include "backends/cuda/codegen/generate_text.h"

#include <fmt/format.h>

#include "backends/cuda/codegen/device_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "device_texts.h"

namespace camshaft::cuda {

std::string generate_text(DType dtype) {
  return device_text({device::generate_parameters_h, device::generate_cuh}) + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(256) write_numbers_any(const __grid_constant__ NumbersParameters numbers, {0}* out) {{
  take_turn();
  write_numbers(numbers, out);
}}
extern "C" __global__ void __launch_bounds__(256) range_any(u32 count, const {0}* start, const {0}* delta, {0}* out) {{
  take_turn();
  range(count, start, delta, out);
}}
extern "C" __global__ void __launch_bounds__(256) run_line_any(const __grid_constant__ CumulativeParameters lines, const {0}* in, {0}* out) {{
  take_turn();
  run_line(lines, in, out);
}}
extern "C" __global__ void __launch_bounds__(256) scan_line_any(const __grid_constant__ CumulativeParameters lines, const {0}* in, {0}* out) {{
  take_turn();
  scan_line(lines, in, out);
}}
)",
                                                                                          device_type(dtype));
}

}  // namespace camshaft::cuda
