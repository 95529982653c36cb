#include "base/similar_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace camshaft {

namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

bool is_similar_name(std::string_view given, std::string_view known) {
  return edit_distance(given, known) <= std::max<size_t>(2, given.size() / 3) ||
         (given.size() > 2 && (known.find(given) != known.npos || given.find(known) != given.npos));
}

std::string what_was_meant(std::string_view given, std::span<const std::string> known) {
  std::vector<std::pair<size_t, size_t>> similar;  // how far, and which
  for (size_t i = 0; i < known.size(); ++i)
    if (is_similar_name(given, known[i])) similar.emplace_back(edit_distance(given, known[i]), i);
  constexpr size_t most_similar = 3;
  if (similar.size() > most_similar) {  // short names are similar to many
    std::sort(similar.begin(), similar.end());
    similar.resize(most_similar);
  }
  std::vector<std::string> near;
  for (const auto& [distance, i] : similar) near.push_back(known[i]);
  if (!near.empty()) return fmt::format("; did you mean '{}'?", fmt::join(near, "' or '"));
  constexpr size_t most_listed = 40;
  return known.empty() || known.size() > most_listed ? "" : fmt::format("; there are: {}", fmt::join(known, ", "));
}

}  // namespace camshaft
