// The option --device.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace camshaft::tools {

/// Adds --device to a command: cpu, cuda, or a GPU by its number, as cuda:1. Other words are refused with the usage.
void add_device_option(CLI::App& command, std::string& device, const char* help);

/// What commands that take an engine or a model say of it.
constexpr const char* run_device_help =
    "What to run on: cpu, cuda (the first GPU) or cuda:N (default: of an engine, what it was built for; of a model, "
    "cpu)";

}  // namespace camshaft::tools
