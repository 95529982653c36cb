#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace camshaft::tools {

namespace {

constexpr std::chrono::milliseconds quiet_time{1000}, interval{100};

bool is_terminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

}  // namespace

Progress::Progress() : next_(Clock::now() + quiet_time), terminal_(is_terminal()) {}

void Progress::update(std::string_view stage, double fraction) {
  if (!terminal_) return;
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  const bool other_stage = shown_ && stage != stage_;
  if (now < next_ && !other_stage) return;
  next_ = now + interval;
  shown_ = true;
  stage_ = stage;
  const int percent = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100);
  fmt::print(stderr, "\r\x1b[Kcamshaft: {} {}%", stage, percent);
  std::fflush(stderr);
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (!shown_) return;
  shown_ = false;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace camshaft::tools
