// What trtexec prints and writes, line by line as scripts expect it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "camshaft/engine.hpp"
#include "tools/trtexec/measure.h"

namespace camshaft::tools::trtexec {

/// "[11/23/2026-21:50:00] [I] …" on stdout; E on stderr, too.
void say(char severity, const std::string& line);

/// "1x3x224x224"
std::string dims_text(const Dims& dims);
/// All elements of a tensor, as numbers.
std::string elements(const Tensor& tensor);

/// "Throughput: … qps", "Latency: min = … ms, …" and the lines around them.
void print_summary(const Measured& measured, const ReportSettings& report, int streams, bool on_gpu);
void print_profile(const std::vector<LayerMilliseconds>& layers, int64_t runs);
/// Name, dimensions and elements of each output.
void print_outputs(const NamedTensors& outputs);
/// A line for each layer.
void print_layers(const Engine& engine);

nlohmann::json times_json(const Measured& measured);
nlohmann::json profile_json(const std::vector<LayerMilliseconds>& layers, int64_t runs);
nlohmann::json outputs_json(const NamedTensors& outputs);
nlohmann::json layers_json(const Engine& engine);

}  // namespace camshaft::tools::trtexec
