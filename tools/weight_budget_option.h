// The option --weight-budget.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace camshaft::tools {

/// Of commands that run an engine. Words that are no budget are refused with the usage.
void add_weight_budget_option(CLI::App& command, std::string& budget);

}  // namespace camshaft::tools
