// What a GPU can do at most, as it is reported.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace camshaft::tools {

/// Of {memory_gbs, f32_gflops, half_gflops, tf32_gflops}: "4815 GB/s of memory, 67 TFLOP/s in f32, 1070 TFLOP/s in f16
/// and bf16, …", or "unknown".
std::string describe_limits(const nlohmann::json& limits);

}  // namespace camshaft::tools
