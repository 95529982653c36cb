#include "tools/page.h"

#include <string_view>

#include "page_texts.h"

namespace camshaft::tools {

namespace {

/// JSON as a script element may hold it: "<" and "&" begin nothing there, as "<" also begins "</script>" and "<!--".
std::string embeddable(const nlohmann::json& data) {
  std::string out;
  for (const char c : data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void fill(std::string& html, std::string_view place, std::string_view text) {
  html.replace(html.find(place), place.size(), text);
}

}  // namespace

std::string page_html(const nlohmann::json& data) {
  using namespace page_texts;
  std::string html(template_html);
  fill(html, "/*style*/", style_css);
  std::string script;
  // In this order: each uses what is before it.
  for (const std::string_view part : {elements_js, facts_js, layout_js, graph_js, charts_js, tables_js, main_js})
    script += part;
  fill(html, "/*script*/", script);
  // Last: places in the data are none of the template's.
  fill(html, "/*data*/", embeddable(data));
  return html;
}

}  // namespace camshaft::tools
