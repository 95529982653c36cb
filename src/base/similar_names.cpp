#include "base/similar_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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
  std::vector<std::string> near;
  for (const std::string& name : known)
    if (is_similar_name(given, name)) near.push_back(name);
  constexpr size_t most_similar = 3;
  if (near.size() > most_similar) {  // short names are similar to many
    std::stable_sort(near.begin(), near.end(), [&](const std::string& a, const std::string& b) {
      return edit_distance(given, a) < edit_distance(given, b);
    });
    near.resize(most_similar);
  }
  if (!near.empty()) return fmt::format("; did you mean '{}'?", fmt::join(near, "' or '"));
  constexpr size_t most_listed = 40;
  return known.empty() || known.size() > most_listed ? "" : fmt::format("; there are: {}", fmt::join(known, ", "));
}

}  // namespace camshaft
