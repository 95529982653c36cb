#include "server/core/trace_writer.h"

#include "server/core/log.h"

namespace camshaft::server {

void TraceWriter::write(const std::string& file, uint32_t each, const std::string& objects) {
  const bool other = name_ != file || each_ != each;
  if (other) index_ = 0;
  if (other || (each > 0 && written_ >= each)) {
    file_.reset();
    name_ = file;
    each_ = each;
    written_ = 0;
  }
  if (file_ == nullptr) {
    const std::string name = each == 0 ? file : file + "." + std::to_string(index_++);
    file_.reset(std::fopen(name.c_str(), "w"));
    if (file_ == nullptr) return log(LogKind::error, "cannot write traces to '" + name + "'");
  }
  // The list's end is written over by the next object.
  if (written_ == 0)
    std::fputs("[", file_.get());
  else
    std::fseek(file_.get(), -1, SEEK_END);
  if (written_ > 0) std::fputs(",", file_.get());
  std::fputs(objects.c_str(), file_.get());
  std::fputs("]", file_.get());
  if (std::fflush(file_.get()) != 0) log(LogKind::error, "cannot write traces to '" + file + "': is its disk full?");
  ++written_;
}

}  // namespace camshaft::server
