#include "onnx/npz.h"

#include <fmt/format.h>
#include <minizip/unzip.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/available_cores.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/parallel.h"
#include "onnx/checksum.h"
#include "onnx/npy.h"

namespace camshaft::onnx {

namespace {

// Memory is not read faster by more.
constexpr int most_threads = 8;

// minizip reads through these from a mapped file, so that files are opened, and failures worded, in one place.
struct MappedBytes {
  std::span<const std::byte> bytes;
  uint64_t position = 0;
};

void* open_source(void* opaque, const void*, int) {
  return opaque;
}
uLong read_source(void*, void* stream, void* buffer, uLong size) {
  auto& source = *static_cast<MappedBytes*>(stream);
  if (source.position >= source.bytes.size()) return 0;
  const uLong count = std::min<uint64_t>(size, source.bytes.size() - source.position);
  std::memcpy(buffer, source.bytes.data() + source.position, count);
  source.position += count;
  return count;
}
ZPOS64_T tell_source(void*, void* stream) {
  return static_cast<MappedBytes*>(stream)->position;
}
long seek_source(void*, void* stream, ZPOS64_T offset, int origin) {
  auto& source = *static_cast<MappedBytes*>(stream);
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

bool is_array(std::span<const std::byte> bytes) {
  constexpr std::string_view begin = "\x93NUMPY";
  return bytes.size() >= begin.size() && std::memcmp(bytes.data(), begin.data(), begin.size()) == 0;
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

  NamedArrays read() {
    std::vector<Entry> entries;
    for (int state = unzGoToFirstFile(zip_.get()); state != UNZ_END_OF_LIST_OF_FILE;
         state = unzGoToNextFile(zip_.get())) {
      if (state != UNZ_OK) damaged("its table of contents is damaged");
      entries.push_back(current_entry());
    }
    return parsed(entries);
  }

 private:
  [[noreturn]] void damaged(const std::string& why) const {
    throw Error(ErrorCode::io, fmt::format("'{}': {}", path_, why));
  }

  struct Entry {
    std::string name, place;
    std::optional<Tensor> tensor;       // where it was compressed, …
    std::span<const std::byte> stored;  // … else, in the file
    uint32_t checksum = 0;
  };

  Entry current_entry() {
    unz_file_info64 info{};
    char probe[1];
    if (unzGetCurrentFileInfo64(zip_.get(), &info, probe, 0, nullptr, 0, nullptr, 0) != UNZ_OK)
      damaged("its table of contents is damaged");
    std::string name(info.size_filename, '\0');
    if (unzGetCurrentFileInfo64(zip_.get(), &info, name.data(), name.size(), nullptr, 0, nullptr, 0) != UNZ_OK)
      damaged("its table of contents is damaged");
    if (info.flag & 1) damaged(fmt::format("'{}' is encrypted", name));
    Entry entry;
    const bool is_array = name.size() >= 4 && name.substr(name.size() - 4) == ".npy";
    entry.name = is_array ? name.substr(0, name.size() - 4) : name;
    entry.place = fmt::format("'{}': array '{}'", path_, entry.name);
    entry.checksum = static_cast<uint32_t>(info.crc);
    if (info.compression_method == 0) {
      entry.stored = stored_bytes(info, entry.place);
    } else {
      entry.tensor = parse_npy(inflated_bytes(info, entry.place), entry.place);
    }
    return entry;
  }

  // As they lie in the file: weights of 435 MB take 0.9 s through minizip's buffer of 16 KiB, and 0.2 so.
  std::span<const std::byte> stored_bytes(const unz_file_info64& info, const std::string& place) {
    int method = 0, level = 0;
    if (info.compressed_size != info.uncompressed_size ||
        unzOpenCurrentFile2(zip_.get(), &method, &level, /*raw*/ 1) != UNZ_OK)
      throw Error(ErrorCode::io, place + " is damaged or truncated");
    const uint64_t begin = unzGetCurrentFileZStreamPos64(zip_.get());
    unzCloseCurrentFile(zip_.get());
    if (begin > source_.bytes.size() || info.uncompressed_size > source_.bytes.size() - begin)
      throw Error(ErrorCode::io, place + " is damaged or truncated");
    return source_.bytes.subspan(begin, info.uncompressed_size);
  }

  // Deflate shrinks by less than 1032: an entry that promises more is damaged, and is found out before memory is
  // asked for.
  std::vector<std::byte> inflated_bytes(const unz_file_info64& info, const std::string& place) {
    if (info.compressed_size > source_.bytes.size() || info.uncompressed_size / 1100 > info.compressed_size)
      throw Error(ErrorCode::io, place + " has an impossible size; the archive is damaged");
    std::vector<std::byte> bytes(info.uncompressed_size);
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
    if (closed == UNZ_CRCERROR) wrong_checksum(place);
    if (done < bytes.size() || closed != UNZ_OK) throw Error(ErrorCode::io, place + " is damaged or truncated");
    return bytes;
  }

  static NamedArrays parsed(std::vector<Entry>& entries) {
    NamedArrays arrays(entries.size());
    for_each_parallel(std::min(available_cores(), most_threads), entries.size(), [&](size_t i) {
      arrays[i] = {entries[i].name, parsed(entries[i])};
    });
    return arrays;
  }

  static Tensor parsed(Entry& entry) {
    if (entry.tensor) return std::move(*entry.tensor);
    if (crc32_of(entry.stored) != entry.checksum) wrong_checksum(entry.place);
    return parse_npy(entry.stored, entry.place);
  }

  [[noreturn]] static void wrong_checksum(const std::string& place) {
    throw Error(ErrorCode::io, place + " has a wrong checksum; the archive is damaged");
  }

  struct Close {
    void operator()(void* zip) const { unzClose(zip); }
  };
  std::string path_;
  MappedBytes source_;
  std::unique_ptr<void, Close> zip_;
};

}  // namespace

bool is_npz(const std::string& path) {
  return path.ends_with(".npz");
}

NamedArrays read_arrays(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (is_array(file->bytes())) return {{"", parse_npy(file->bytes(), fmt::format("'{}'", path))}};
  if (is_empty_archive(file->bytes())) return {};
  return ArchiveReader(path, file->bytes()).read();
}

}  // namespace camshaft::onnx
