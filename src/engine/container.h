// The outer format of an engine file: named sections of bytes with checksums. Knows nothing of what is in them.
//
//   0        header, 64 bytes, little endian:
//            0 magic "CAMSHAFT"   8 u32 format version   12 u32 sections   16 u64 file size   24 u64 header size
//            32 u64 XXH3-64 of the first `header size` bytes without these eight   40 zeros
//   64       section table, 24 bytes each: 0 char[8] kind, padded with zeros   8 u64 offset   16 u64 size
//   …        checksums, u64 each: XXH3-64 of every 4 MiB of every section, in order; here the header ends
//   4096·k   the sections, in the order of the table, each at the next multiple of 4096; the file ends with the last
//
// All bytes between the parts are zero, and a reader insists on it. With that, a given list of sections has exactly one
// encoding, and a change of any byte of a file is noticed: when it is opened, or, in a last section that the reader has
// no use for yet, when that is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancellation.h"
#include "base/mapped_file.h"

namespace camshaft {

constexpr uint32_t container_version = 2;
constexpr uint64_t container_page = 4096;           ///< every section starts at a multiple of it
constexpr uint64_t container_piece_alignment = 64;  ///< every piece starts at a multiple of it within its section
constexpr uint64_t container_chunk = 4 << 20;       ///< bytes that one checksum covers

/// A section to be written: its bytes are those of the pieces, one after the other at multiples of 64, zeros between.
/// The pieces are not copied; they must live until the section is written.
class SectionSource {
 public:
  /// `kind`: 1 to 8 of a-z 0-9 _, unique in its file; else Error(internal).
  explicit SectionSource(std::string_view kind);
  SectionSource(std::string_view kind, std::span<const std::byte> bytes) : SectionSource(kind) { add(bytes); }

  /// Returns the offset at which the piece will start within the section.
  uint64_t add(std::span<const std::byte> piece);
  const std::string& kind() const { return kind_; }
  uint64_t size() const { return size_; }
  const std::vector<std::span<const std::byte>>& pieces() const { return pieces_; }

 private:
  std::string kind_;
  uint64_t size_ = 0;
  std::vector<std::span<const std::byte>> pieces_;
};

/// Writes the file whole or not at all (AtomicFile: Error(io) on failure). `cancellation` is looked at every 4 MiB.
void write_container(const std::string& path, std::span<const SectionSource> sections,
                     const Cancellation& cancellation = {});
/// The same bytes in memory.
std::vector<std::byte> container_bytes(std::span<const SectionSource> sections);

/// Whether the bytes begin as an engine does: to tell an engine from a model, not to trust it.
bool begins_like_container(std::span<const std::byte> bytes);

/// A checked view of an engine's sections. Holds on to the file when it was opened from one; else the bytes must
/// outlive it.
class Container {
 public:
  struct Section {
    std::string kind;
    uint64_t offset = 0;  ///< in the file
    std::span<const std::byte> bytes;
    std::vector<uint64_t> checksums;  ///< of its chunks
  };

  /// In the order of the file.
  const std::vector<Section>& sections() const { return sections_; }
  bool has(std::string_view kind) const;
  /// The bytes of the section of this kind, at a multiple of 4096 in the file. Throws Error(corrupt_engine) when there
  /// is none.
  std::span<const std::byte> section(std::string_view kind) const;
  /// Checks the checksums of a section that open_container() has left out. Throws Error(corrupt_engine).
  void verify(std::string_view kind) const;

 private:
  friend Container open_container(std::span<const std::byte>, const std::string&);
  friend Container open_container(std::shared_ptr<const MappedFile>, std::string_view, bool);
  static Container read_header(std::span<const std::byte> bytes, const std::string& name);
  void verify(std::span<const Section> sections) const;

  std::string name_;
  std::vector<Section> sections_;
  std::shared_ptr<const MappedFile> file_;
  bool releases_ = false;
};

/// Checks any bytes at all, in this order: size, magic, version, size stated, header checksum, layout, padding,
/// checksums of the sections. Throws Error(corrupt_engine) that starts with `name` and says what is wrong where;
/// allocates no more than a small multiple of bytes.size(). On two cores, from the page cache and mapping included, it
/// checks 26 GB/s (350 MB in 14 ms); up to 32 MiB on one.
Container open_container(std::span<const std::byte> bytes, const std::string& name);
/// `last`: what is not looked at, nor even read from the disk, if that is the kind of the last section; its bytes are
/// not to be used before Container::verify().
/// `releases`: no more than a chunk for each thread is in memory meanwhile.
Container open_container(std::shared_ptr<const MappedFile> file, std::string_view last = {}, bool releases = false);

}  // namespace camshaft
