// The page of `camshaft report`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace camshaft::tools {

/// One HTML file that shows the data (see page_data.h) and needs nothing else: template, style and scripts are in the
/// program, the files of tools/page/. Whatever names the data holds, none of it is read as HTML or script.
std::string page_html(const nlohmann::json& data);

}  // namespace camshaft::tools
