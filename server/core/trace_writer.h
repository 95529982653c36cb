// Files of traces.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace camshaft::server {

/// A list of JSON objects in a file that is whole after each of them. Not safe from several threads.
class TraceWriter {
 public:
  /// `each`: a file for each so many, with ".0", ".1" and so on behind its name; 0: one.
  void write(const std::string& file, uint32_t each, const std::string& objects);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  uint32_t each_ = 0, written_ = 0;
  uint64_t index_ = 0;
};

}  // namespace camshaft::server
