#include <fmt/format.h>
#include <minizip/unzip.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "camshaft/error.hpp"
#include "tools/input_file.h"
#include "tools/npy.h"
#include "tools/npz.h"

namespace camshaft::tools {

namespace {

// minizip reads through these from a mapped file, so that files are opened, and failures worded, in one place.
struct Source {
  std::span<const std::byte> bytes;
  uint64_t position = 0;
};

void* open_source(void* opaque, const void*, int) {
  return opaque;
}
uLong read_source(void*, void* stream, void* buffer, uLong size) {
  auto& source = *static_cast<Source*>(stream);
  if (source.position >= source.bytes.size()) return 0;
  const uLong count = std::min<uint64_t>(size, source.bytes.size() - source.position);
  std::memcpy(buffer, source.bytes.data() + source.position, count);
  source.position += count;
  return count;
}
ZPOS64_T tell_source(void*, void* stream) {
  return static_cast<Source*>(stream)->position;
}
long seek_source(void*, void* stream, ZPOS64_T offset, int origin) {
  auto& source = *static_cast<Source*>(stream);
  const uint64_t base = origin == ZLIB_FILEFUNC_SEEK_CUR   ? source.position
                        : origin == ZLIB_FILEFUNC_SEEK_END ? source.bytes.size()
                                                           : 0;
  source.position = base + offset;
  return 0;
}
int close_source(void*, void*) {
  return 0;
}
int source_error(void*, void*) {
  return 0;
}

// An archive of no arrays is its end record alone. minizip, for which position 0 means "not found", does not see it.
bool is_empty_archive(std::span<const std::byte> bytes) {
  constexpr char end_record[] = {'P', 'K', 5, 6};
  return bytes.size() == 22 && std::memcmp(bytes.data(), end_record, sizeof end_record) == 0;
}

class ArchiveReader {
 public:
  ArchiveReader(const std::string& path, std::span<const std::byte> bytes) : path_(path), source_{bytes, 0} {
    zlib_filefunc64_def functions{};
    functions.zopen64_file = open_source;
    functions.zread_file = read_source;
    functions.ztell64_file = tell_source;
    functions.zseek64_file = seek_source;
    functions.zclose_file = close_source;
    functions.zerror_file = source_error;
    functions.opaque = &source_;
    zip_.reset(unzOpen2_64(path.c_str(), &functions));
    if (!zip_)
      throw Error(ErrorCode::io, fmt::format("'{}' is not an .npz archive (a zip file), or it is truncated", path));
  }

  NamedTensors read() {
    NamedTensors tensors;
    for (int state = unzGoToFirstFile(zip_.get()); state != UNZ_END_OF_LIST_OF_FILE;
         state = unzGoToNextFile(zip_.get())) {
      if (state != UNZ_OK) damaged("its table of contents is damaged");
      std::string name = current_name();
      const bool is_array = name.size() >= 4 && name.substr(name.size() - 4) == ".npy";
      const std::string place =
          fmt::format("'{}': array '{}'", path_, is_array ? name.substr(0, name.size() - 4) : name);
      tensors.emplace_back(is_array ? name.substr(0, name.size() - 4) : name, parse_npy(current_bytes(place), place));
    }
    return tensors;
  }

 private:
  [[noreturn]] void damaged(const std::string& why) const {
    throw Error(ErrorCode::io, fmt::format("'{}': {}", path_, why));
  }

  std::string current_name() {
    unz_file_info64 info{};
    char probe[1];
    if (unzGetCurrentFileInfo64(zip_.get(), &info, probe, 0, nullptr, 0, nullptr, 0) != UNZ_OK)
      damaged("its table of contents is damaged");
    std::string name(info.size_filename, '\0');
    if (unzGetCurrentFileInfo64(zip_.get(), &info, name.data(), name.size(), nullptr, 0, nullptr, 0) != UNZ_OK)
      damaged("its table of contents is damaged");
    size_ = info.uncompressed_size;
    packed_ = info.compressed_size;
    if (info.flag & 1) damaged(fmt::format("'{}' is encrypted", name));
    return name;
  }

  // Deflate shrinks by less than 1032: an entry that promises more is damaged, and is found out before memory is
  // asked for.
  std::vector<std::byte> current_bytes(const std::string& place) {
    if (packed_ > source_.bytes.size() || size_ / 1100 > packed_)
      throw Error(ErrorCode::io, place + " has an impossible size; the archive is damaged");
    std::vector<std::byte> bytes(size_);
    if (unzOpenCurrentFile(zip_.get()) != UNZ_OK)
      throw Error(ErrorCode::io, place + " cannot be read: damaged, or compressed in a way other than deflate");
    size_t done = 0;
    while (done < bytes.size()) {
      const auto piece = static_cast<unsigned>(std::min<size_t>(bytes.size() - done, 1u << 30));
      const int count = unzReadCurrentFile(zip_.get(), bytes.data() + done, piece);
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    const int closed = unzCloseCurrentFile(zip_.get());  // compares the checksum
    if (done < bytes.size() || closed != UNZ_OK)
      throw Error(ErrorCode::io, place + (closed == UNZ_CRCERROR ? " has a wrong checksum; the archive is damaged"
                                                                 : " is damaged or truncated"));
    return bytes;
  }

  struct Close {
    void operator()(void* zip) const { unzClose(zip); }
  };
  std::string path_;
  Source source_;
  std::unique_ptr<void, Close> zip_;
  uint64_t size_ = 0, packed_ = 0;
};

}  // namespace

NamedTensors read_npz(const std::string& path) {
  const InputFile file(path);
  if (is_empty_archive(file.bytes())) return {};
  return ArchiveReader(path, file.bytes()).read();
}

Tensor read_npy(const std::string& path) {
  return parse_npy(InputFile(path).bytes(), fmt::format("'{}'", path));
}

}  // namespace camshaft::tools
