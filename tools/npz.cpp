#include "tools/npz.h"

#include <fmt/format.h>
#include <minizip/zip.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "camshaft/error.hpp"
#include "tools/atomic_file.h"
#include "tools/npy.h"

namespace camshaft::tools {

namespace {

// minizip writes through these into an AtomicFile. It is C: exceptions are kept and rethrown by ArchiveWriter.
struct Sink {
  AtomicFile& file;
  uint64_t position = 0;
  std::exception_ptr failure;
};

void* open_sink(void* opaque, const void*, int) {
  return opaque;
}
uLong read_sink(void*, void*, void*, uLong) {
  return 0;
}
uLong write_sink(void*, void* stream, const void* buffer, uLong size) {
  auto& sink = *static_cast<Sink*>(stream);
  if (sink.failure) return 0;
  try {
    // After each array it goes back to fill in the checksum, always within what was written already.
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(buffer), size);
    if (sink.position == sink.file.position()) {
      sink.file.write(bytes);
    } else {
      sink.file.overwrite(sink.position, bytes);
    }
    sink.position += size;
    return size;
  } catch (...) {
    sink.failure = std::current_exception();
    return 0;
  }
}
ZPOS64_T tell_sink(void*, void* stream) {
  return static_cast<Sink*>(stream)->position;
}
long seek_sink(void*, void* stream, ZPOS64_T offset, int origin) {
  auto& sink = *static_cast<Sink*>(stream);
  const uint64_t base = origin == ZLIB_FILEFUNC_SEEK_CUR   ? sink.position
                        : origin == ZLIB_FILEFUNC_SEEK_END ? sink.file.position()
                                                           : 0;
  sink.position = base + offset;
  return 0;
}
int close_sink(void*, void*) {
  return 0;
}
int sink_error(void*, void* stream) {
  return static_cast<Sink*>(stream)->failure ? 1 : 0;
}

// Bit 11 of an entry's flags. Without it readers take names for code page 437, and 'größe' comes back as 'gr├╢├ƒe'.
constexpr uLong names_are_utf8 = 1u << 11;

class ArchiveWriter {
 public:
  explicit ArchiveWriter(const std::string& path) : path_(path), file_(path), sink_{file_, 0, nullptr} {
    zlib_filefunc64_def functions{};
    functions.zopen64_file = open_sink;
    functions.zread_file = read_sink;
    functions.zwrite_file = write_sink;
    functions.ztell64_file = tell_sink;
    functions.zseek64_file = seek_sink;
    functions.zclose_file = close_sink;
    functions.zerror_file = sink_error;
    functions.opaque = &sink_;
    zip_ = zipOpen2_64(path.c_str(), APPEND_STATUS_CREATE, nullptr, &functions);
    check(zip_ != nullptr);
  }
  ~ArchiveWriter() {
    if (zip_) zipClose(zip_, nullptr);
  }
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  void add(const std::string& name, const Tensor& tensor) {
    const Tensor array = to_numpy(tensor);
    const NpyContent content = npy_content(array);
    const auto elements = content.storage.empty() ? content.elements : std::as_bytes(std::span(content.storage));
    zip_fileinfo info{};
    info.tmz_date.tm_year = 1980;  // the same bytes for the same arrays, whenever they are written
    info.tmz_date.tm_mday = 1;
    const int large = elements.size() > 0xf0000000u;
    check(zipOpenNewFileInZip4_64(zip_, (name + ".npy").c_str(), &info, nullptr, 0, nullptr, 0, nullptr, 0, 0, 0,
                                  -MAX_WBITS, DEF_MEM_LEVEL, Z_DEFAULT_STRATEGY, nullptr, 0, 0, names_are_utf8,
                                  large) == ZIP_OK);
    append(std::as_bytes(std::span(content.header)));
    append(elements);
    check(zipCloseFileInZip(zip_) == ZIP_OK);
  }

  void commit() {
    void* zip = std::exchange(zip_, nullptr);
    check(zipClose(zip, nullptr) == ZIP_OK);
    file_.commit();
  }

 private:
  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min<size_t>(bytes.size(), 1u << 30));
      check(zipWriteInFileInZip(zip_, piece.data(), static_cast<unsigned>(piece.size())) == ZIP_OK);
      bytes = bytes.subspan(piece.size());
    }
  }
  void check(bool succeeded) const {
    if (sink_.failure) std::rethrow_exception(sink_.failure);
    if (!succeeded) throw Error(ErrorCode::io, fmt::format("'{}' could not be written as a zip file", path_));
  }

  std::string path_;
  AtomicFile file_;
  Sink sink_;
  void* zip_ = nullptr;
};

}  // namespace

Tensor read_npy(const std::string& path) {
  NamedTensors arrays = read_arrays(path);
  if (arrays.size() != 1 || !arrays[0].first.empty())
    throw Error(ErrorCode::io, fmt::format("'{}' is not a NumPy array (.npy)", path));
  return std::move(arrays[0].second);
}

void write_npz(const std::string& path, const NamedTensors& tensors) {
  ArchiveWriter archive(path);
  for (const auto& [name, tensor] : tensors) archive.add(name, tensor);
  archive.commit();
}

}  // namespace camshaft::tools
