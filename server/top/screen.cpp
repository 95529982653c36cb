#include "server/top/screen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <numeric>

namespace camshaft::server {

namespace {

constexpr size_t history_width = 12, most_errors = 4, least_name = 12;

template <class... Values>
std::string text_of(const char* format, Values... values) {
  char text[128];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// What a terminal would take for a command, or could not show, is a question mark.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return out;
}

bool begins_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
}

size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

// Cut or filled up to a width in characters.
std::string fit(std::string text, size_t width, bool right = false) {
  const size_t own = width_of(text);
  if (own <= width) return right ? std::string(width - own, ' ') + text : text + std::string(width - own, ' ');
  size_t seen = 0, at = 0;
  while (at < text.size() && (!begins_character(text[at]) || seen++ < width)) ++at;
  return text.substr(0, at);
}

std::string bytes_text(int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return size < 1e9 ? text_of("%.0f MB", size / 1e6) : text_of("%.1f GB", size / 1e9);
}

std::string uptime_text(double seconds) {
  const auto whole = static_cast<long>(seconds);
  if (whole < 60) return text_of("%ld s", whole);
  if (whole < 3600) return text_of("%ld min %ld s", whole / 60, whole % 60);
  if (whole < 86400) return text_of("%ld h %ld min", whole / 3600, whole / 60 % 60);
  return text_of("%ld d %ld h", whole / 86400, whole / 3600 % 24);
}

// Three digits that count.
std::string rate_text(double rate) {
  return rate == 0    ? "0"
         : rate < 10  ? text_of("%.2f", rate)
         : rate < 100 ? text_of("%.1f", rate)
                      : text_of("%.0f", rate);
}

const char* level(double share, bool blocks) {
  static constexpr const char* unicode[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* ascii[] = {" ", ".", ".", ":", "-", "=", "+", "*", "#"};
  const auto at = static_cast<size_t>(share <= 0 ? 0 : std::clamp(std::ceil(8 * share), 1.0, 8.0));
  return blocks ? unicode[at] : ascii[at];
}

std::string history_text(const RateHistory& history, const ModelFigures& model, bool blocks) {
  const auto found = history.find(history_key(model));
  if (found == history.end()) return "";
  const std::deque<double>& rates = found->second;
  const double most = rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
  std::string text;
  const size_t skipped = rates.size() - std::min(rates.size(), history_width);
  for (size_t i = skipped; i < rates.size(); ++i) text += level(most > 0 ? rates[i] / most : 0, blocks);
  return text;
}

// The sizes of batches that ran most, with their shares of the runs.
std::string batches_text(const ModelFigures& model) {
  std::vector<std::pair<int64_t, uint64_t>> runs(model.runs.begin(), model.runs.end());
  const uint64_t total =
      std::accumulate(runs.begin(), runs.end(), uint64_t{0}, [](uint64_t sum, auto& run) { return sum + run.second; });
  std::sort(runs.begin(), runs.end(), [](auto& a, auto& b) { return a.second > b.second; });
  runs.resize(std::min<size_t>(runs.size(), 3));
  std::sort(runs.begin(), runs.end());
  std::string text;
  for (const auto& [size, count] : runs)
    text += text_of("%s%lld:%.0f%%", text.empty() ? "" : " ", static_cast<long long>(size),
                    100 * static_cast<double>(count) / static_cast<double>(total));
  return text;
}

struct Column {
  const char* title;
  size_t width;
  std::function<std::string(const ModelFigures&)> text;
};

// In the order in which they stand; of those that do not fit the last ones are left out.
std::vector<Column> all_columns(const RateHistory& history, bool blocks) {
  using M = const ModelFigures&;
  const auto number = [](const std::optional<double>& value) { return value ? text_of("%.1f", *value) : "-"; };
  return {
      {"WAITING", 8, [](M m) { return std::to_string(m.waiting); }},
      {"REQ/S", 8, [](M m) { return rate_text(m.requests_per_second); }},
      {"FAIL/S", 7, [](M m) { return rate_text(m.failures_per_second); }},
      {"P50", 9, [](M m) { return duration_text(m.p50_us); }},
      {"P99", 9, [](M m) { return duration_text(m.p99_us); }},
      {"BATCH", 6, [number](M m) { return number(m.batch); }},
      {"QUEUE", 9, [](M m) { return duration_text(m.queue_us); }},
      {"RUN", 9, [](M m) { return duration_text(m.run_us); }},
      {"", history_width + 1, [&history, blocks](M m) { return history_text(history, m, blocks); }},
      {"RUNS BY BATCH", 24, [](M m) { return batches_text(m); }},
  };
}

class Screen {
 public:
  Screen(const Figures& figures, const RateHistory& history, const ScreenForm& form)
      : figures_(figures), form_(form), width_(static_cast<size_t>(std::max(form.columns, 20))) {
    size_t left = width_ - std::min(width_, name_width() + 8);
    for (Column& column : all_columns(history, form.blocks)) {
      if (column.width > left) break;
      left -= column.width;
      columns_.push_back(std::move(column));
    }
  }

  std::string take() {
    head();
    models();
    errors();
    return std::move(text_);
  }

 private:
  size_t name_width() const {
    size_t longest = least_name;
    for (const ModelFigures& model : figures_.models) longest = std::max(longest, width_of(history_key(model)) + 1);
    return std::min(longest, std::max(least_name, width_ / 3));
  }
  size_t rows_left() const {
    if (form_.rows == 0) return SIZE_MAX;
    const auto rows = static_cast<size_t>(form_.rows);
    return rows - std::min(rows, lines_);
  }

  void line(const std::string& text, const char* style = "") {
    if (rows_left() == 0) return;
    const std::string cut = fit(text, std::min(width_, width_of(text)));
    text_ += form_.colour && *style != '\0' ? style + cut + "\x1b[0m\n" : cut + "\n";
    ++lines_;
  }

  void head() {
    double requests = 0, failures = 0;
    int64_t waiting = 0;
    for (const ModelFigures& model : figures_.models) {
      requests += model.requests_per_second;
      failures += model.failures_per_second;
      waiting += model.waiting;
    }
    line(plain(figures_.id) + " " + plain(figures_.version) + (figures_.ready ? ", ready" : ", not ready") + ", up " +
             uptime_text(figures_.uptime_s),
         figures_.ready ? "\x1b[1m" : "\x1b[1;31m");
    line(rate_text(requests) + " requests/s, " + rate_text(failures) + " failures/s, " + std::to_string(waiting) +
         " waiting; " +
         text_of("%.2f of %lld cores, ", figures_.cores, static_cast<long long>(figures_.machine_cores)) +
         bytes_text(figures_.resident_bytes) + " of " + bytes_text(figures_.machine_bytes));
    line(plain(form_.notice), "\x1b[33m");
  }

  void models() {
    std::string titles = fit("MODEL", name_width()) + fit("STATE", 8);
    for (const Column& column : columns_) titles += fit(column.title, column.width, !is_left(column));
    line(titles, "\x1b[7m");
    std::vector<const ModelFigures*> sorted;
    for (const ModelFigures& model : figures_.models) sorted.push_back(&model);
    std::stable_sort(sorted.begin(), sorted.end(), [&](auto* a, auto* b) { return rank(*a) > rank(*b); });
    const size_t below = figures_.errors.empty() ? 1 : std::min(figures_.errors.size(), most_errors) + 2;
    const size_t room = rows_left() - std::min(rows_left(), below);
    const size_t first = std::min(form_.first, sorted.size() - std::min(sorted.size(), room));
    const size_t end = room < sorted.size() - first ? first + room : sorted.size();
    for (size_t i = first; i < end; ++i) model_line(*sorted[i]);
    if (sorted.empty()) line("no model is in the repository");
    if (end - first < sorted.size())
      line(text_of("models %zu to %zu of %zu", first + 1, end, sorted.size()), "\x1b[2m");
  }

  double rank(const ModelFigures& model) const {
    switch (form_.order) {
      case TopOrder::requests:
        return model.requests_per_second;
      case TopOrder::waiting:
        return static_cast<double>(model.waiting);
      case TopOrder::latency:
        return model.p99_us.value_or(0);
      case TopOrder::name:
        break;
    }
    return 0;  // as the server has them, which is by their names
  }

  static bool is_left(const Column& column) { return *column.title == '\0' || column.width > 20; }

  void model_line(const ModelFigures& model) {
    std::string text = fit(plain(history_key(model)), name_width() - 1) + " " +
                       fit(model.state == "UNAVAILABLE" ? "DOWN" : model.state, 8);
    if (!model.loaded) {
      line(text + plain(model.reason), model.state == "UNAVAILABLE" ? "\x1b[31m" : "\x1b[2m");
      return;
    }
    for (const Column& column : columns_) {
      const std::string value = column.text(model);
      text += is_left(column) ? " " + fit(value, column.width - 1) : fit(value, column.width, true);
    }
    line(text, model.failures_per_second > 0 ? "\x1b[33m" : "");
  }

  void errors() {
    if (figures_.errors.empty()) return;
    line("");
    line("LAST ERRORS", "\x1b[7m");
    for (size_t i = 0; i < std::min(figures_.errors.size(), most_errors); ++i) {
      const std::time_t time = figures_.errors[i].time_ms / 1000;
      std::tm local{};
      char clock[16] = "";
      if (localtime_r(&time, &local) != nullptr) std::strftime(clock, sizeof clock, "%H:%M:%S ", &local);
      line(clock + plain(figures_.errors[i].message));
    }
  }

  const Figures& figures_;
  const ScreenForm& form_;
  const size_t width_;
  std::vector<Column> columns_;
  std::string text_;
  size_t lines_ = 0;
};

}  // namespace

std::string history_key(const ModelFigures& model) {
  return model.version.empty() ? model.name : model.name + " " + model.version;
}

std::string duration_text(const std::optional<double>& us) {
  if (!us) return "-";
  if (std::isinf(*us)) return "> 100 s";
  const double ms = *us / 1e3;
  if (*us < 1000) return text_of("%.0f us", *us);
  if (ms < 10) return text_of("%.2f ms", ms);
  if (ms < 100) return text_of("%.1f ms", ms);
  if (ms < 1000) return text_of("%.0f ms", ms);
  return text_of("%.2f s", ms / 1e3);
}

std::string screen_text(const Figures& figures, const RateHistory& history, const ScreenForm& form) {
  return Screen(figures, history, form).take();
}

}  // namespace camshaft::server
