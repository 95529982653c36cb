// The terminal while something is shown on all of it.
#pragma once

#include <chrono>
#include <string>

namespace camshaft::server {

/// Shows its other screen, without a cursor and without what is typed; everything is as before when it ends. Stops with
/// the process (Ctrl-Z), and is taken again when that goes on.
class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// In place of what is there; lines end with a line feed.
  void show(const std::string& text);
  int columns() const { return columns_; }
  int rows() const { return rows_; }
  /// A key, or what a key is called: "up", "down", "end" (Ctrl-C, a signal, no terminal any more), "resized"; empty:
  /// the time is over.
  std::string wait_for_key(std::chrono::milliseconds time);

 private:
  void take();
  void give_back();
  void measure();
  std::string read_key();

  int columns_ = 80, rows_ = 24;
  int signals_ = -1;  // a descriptor from which signals are read
};

/// Whether both ends of the terminal are there: what is shown alone, or typed alone, is no use.
bool is_terminal();
/// Whether the locale has Unicode's characters.
bool has_unicode();

}  // namespace camshaft::server
