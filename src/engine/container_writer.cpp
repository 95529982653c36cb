#include <algorithm>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/available_cores.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "engine/container_format.h"

namespace camshaft {
namespace {

constexpr std::byte zeros[container_piece_alignment] = {};

// The part of AtomicFile that write_sections needs, in memory.
struct MemorySink {
  std::vector<std::byte> bytes;
  void write(std::span<const std::byte> more) { bytes.insert(bytes.end(), more.begin(), more.end()); }
  void pad_to(uint64_t offset) { bytes.resize(offset); }
  void overwrite(uint64_t offset, std::span<const std::byte> with) {
    std::copy(with.begin(), with.end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
  }
};

// The bytes that one checksum covers, in the pieces that they are in.
using Chunk = std::vector<std::span<const std::byte>>;

void add_chunks(const SectionSource& section, std::vector<Chunk>& chunks) {
  uint64_t room = 0, position = 0;
  const auto add = [&](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (room == 0) {
        chunks.emplace_back();
        room = container_chunk;
      }
      const auto taken = bytes.first(static_cast<size_t>(std::min<uint64_t>(bytes.size(), room)));
      chunks.back().push_back(taken);
      room -= taken.size();
      bytes = bytes.subspan(taken.size());
    }
  };
  for (const auto piece : section.pieces()) {
    add(std::span(zeros).first(container_format::align_up(position, container_piece_alignment) - position));
    add(piece);
    position = container_format::align_up(position, container_piece_alignment) + piece.size();
  }
}

uint64_t checksum(const Chunk& chunk) {
  if (chunk.size() == 1) return hash64(chunk[0]);
  Hasher hasher;
  for (const auto bytes : chunk) hasher.add(bytes);
  return hasher.hash64();
}

void check(std::span<const SectionSource> sections) {
  if (sections.size() > container_format::max_sections)
    throw Error(ErrorCode::internal, "an engine of too many sections");
  for (size_t i = 0; i < sections.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (sections[i].kind() == sections[j].kind())
        throw Error(ErrorCode::internal, "two engine sections of kind '" + sections[i].kind() + "'");
    }
  }
}

template <class Sink>
void write_sections(Sink& sink, std::span<const SectionSource> sections, const Cancellation& cancellation) {
  check(sections);
  const size_t table_end = container_format::fixed_size + sections.size() * container_format::entry_size;
  uint64_t chunks = 0;
  for (const SectionSource& section : sections) chunks += container_format::chunk_count(section.size());
  const uint64_t header_size = table_end + chunks * sizeof(uint64_t);
  std::vector<std::byte> header(header_size);
  std::memcpy(header.data(), container_format::magic, sizeof container_format::magic);
  container_format::store(std::span(header), container_format::version_at, container_version);
  container_format::store(std::span(header), container_format::section_count_at,
                          static_cast<uint32_t>(sections.size()));
  container_format::store(std::span(header), container_format::header_size_at, header_size);

  std::vector<uint64_t> offsets;
  std::vector<Chunk> all;
  std::vector<size_t> first;  // chunk of each section
  uint64_t end = header_size;
  for (size_t i = 0; i < sections.size(); ++i) {
    offsets.push_back(container_format::align_up(end, container_page));
    first.push_back(all.size());
    add_chunks(sections[i], all);
    end = offsets.back() + sections[i].size();
    const auto entry = std::span(header).subspan(container_format::fixed_size + i * container_format::entry_size,
                                                 container_format::entry_size);
    std::memcpy(entry.data(), sections[i].kind().data(), sections[i].kind().size());
    container_format::store(entry, container_format::entry_offset_at, offsets.back());
    container_format::store(entry, container_format::entry_size_at, sections[i].size());
  }
  first.push_back(all.size());
  const auto write_all = [&] {
    sink.pad_to(header_size);  // the header itself comes last, when the checksums are known
    for (size_t i = 0; i < sections.size(); ++i) {
      sink.pad_to(offsets[i]);
      for (size_t c = first[i]; c < first[i + 1]; ++c) {
        cancellation.check("writing the engine");
        for (const auto bytes : all[c]) sink.write(bytes);
      }
    }
  };
  const auto sum_all = [&] {
    for (size_t c = 0; c < all.size(); ++c) {
      cancellation.check("writing the engine");
      container_format::store(std::span(header), table_end + c * sizeof(uint64_t), checksum(all[c]));
    }
  };
  // Checksums are a quarter of the time of writing into the system's cache: another thread takes them meanwhile.
  const int threads = all.size() > 1 ? std::min(2, available_cores()) : 1;
  for_each_parallel(threads, 2, [&](size_t i) { i == 0 ? write_all() : sum_all(); });
  container_format::store(std::span(header), container_format::file_size_at, end);
  container_format::store(std::span(header), container_format::header_checksum_at,
                          container_format::header_checksum(header));
  sink.overwrite(0, header);
}

}  // namespace

uint64_t container_format::header_checksum(std::span<const std::byte> header) {
  Hasher hasher;
  hasher.add(header.first(header_checksum_at));
  hasher.add(header.subspan(header_checksum_at + sizeof(uint64_t)));
  return hasher.hash64();
}

SectionSource::SectionSource(std::string_view kind) : kind_(kind) {
  if (kind.empty() || kind.size() > container_format::kind_size ||
      !std::all_of(kind.begin(), kind.end(), container_format::is_kind_character)) {
    throw Error(ErrorCode::internal, "'" + kind_ + "' is no kind of engine section: 1 to 8 of a-z 0-9 _ are");
  }
}

uint64_t SectionSource::add(std::span<const std::byte> piece) {
  const uint64_t offset = container_format::align_up(size_, container_piece_alignment);
  pieces_.push_back(piece);
  size_ = offset + piece.size();
  return offset;
}

void write_container(const std::string& path, std::span<const SectionSource> sections,
                     const Cancellation& cancellation) {
  AtomicFile file(path);
  write_sections(file, sections, cancellation);
  file.commit();
}

std::vector<std::byte> container_bytes(std::span<const SectionSource> sections) {
  MemorySink sink;
  write_sections(sink, sections, {});
  return std::move(sink.bytes);
}

}  // namespace camshaft
