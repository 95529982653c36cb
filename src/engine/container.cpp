#include "engine/container.h"

#include <algorithm>
#include <utility>

#include "base/available_cores.h"
#include "base/error.h"
#include "base/format_bytes.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "engine/container_format.h"

namespace camshaft {
namespace {

// Memory is not read faster by more.
constexpr size_t most_threads = 8;

constexpr char way_out[] = "; copy the file again, or rebuild it with `camshaft build`";

[[noreturn]] void refuse(const std::string& name, const std::string& reason, const char* then = way_out) {
  throw Error(ErrorCode::corrupt_engine, name + ": " + reason + then);
}

// Magic, version and the sizes; returns the header, whose checksum is right.
std::span<const std::byte> checked_header(std::span<const std::byte> bytes, const std::string& name) {
  const size_t seen = std::min(bytes.size(), sizeof container_format::magic);
  if (seen == 0) refuse(name, "the engine is empty");
  if (std::memcmp(bytes.data(), container_format::magic, seen) != 0)
    refuse(name, "this is not a Camshaft engine", "; make one from an ONNX model with `camshaft build`");
  if (bytes.size() < container_format::section_count_at)
    refuse(name, "the engine is truncated: it ends after " + format_bytes(bytes.size()));
  const auto version = container_format::load<uint32_t>(bytes, container_format::version_at);
  if (version != container_version) {
    refuse(name,
           "this engine has format version " + std::to_string(version) + ", and this Camshaft reads version " +
               std::to_string(container_version),
           "; rebuild it with `camshaft build`");
  }
  if (bytes.size() < container_format::fixed_size)
    refuse(name, "the engine is truncated: it ends after " + format_bytes(bytes.size()));
  const auto stated = container_format::load<uint64_t>(bytes, container_format::file_size_at);
  if (stated > bytes.size()) {
    refuse(name, "the engine is truncated: " + std::to_string(bytes.size()) + " of " + std::to_string(stated) +
                     " bytes are there");
  }
  if (stated < bytes.size())
    refuse(name, std::to_string(bytes.size() - stated) + " bytes follow the end of the engine");
  const auto count = container_format::load<uint32_t>(bytes, container_format::section_count_at);
  const auto header_size = container_format::load<uint64_t>(bytes, container_format::header_size_at);
  if (count > container_format::max_sections || header_size > bytes.size() ||
      header_size < container_format::fixed_size + count * container_format::entry_size) {
    refuse(name, "the engine's header is damaged: its sizes contradict each other");
  }
  const auto header = bytes.first(header_size);
  if (container_format::header_checksum(header) !=
      container_format::load<uint64_t>(bytes, container_format::header_checksum_at))
    refuse(name, "the engine's header is damaged: its checksum is wrong");
  for (size_t i = container_format::header_checksum_at + sizeof(uint64_t); i < container_format::fixed_size; ++i)
    if (header[i] != std::byte{0}) refuse(name, "the engine's header has a field that this version does not know");
  return header;
}

std::string checked_kind(std::span<const std::byte> entry, const std::string& name) {
  const char* text = reinterpret_cast<const char*>(entry.data());
  const size_t length = strnlen(text, container_format::kind_size);
  const bool padded = std::all_of(text + length, text + container_format::kind_size, [](char c) { return c == 0; });
  if (length == 0 || !padded || !std::all_of(text, text + length, container_format::is_kind_character))
    refuse(name, "the engine's section table has a section without a proper name");
  return {text, length};
}

void check_padding(std::span<const std::byte> bytes, uint64_t begin, uint64_t end, const std::string& name) {
  for (uint64_t i = begin; i < end; ++i) {
    if (bytes[i] != std::byte{0})
      refuse(name, "the engine is damaged: byte " + std::to_string(i) + ", between two sections, is not zero");
  }
}

}  // namespace

bool begins_like_container(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof container_format::magic &&
         std::memcmp(bytes.data(), container_format::magic, sizeof container_format::magic) == 0;
}

Container Container::read_header(std::span<const std::byte> bytes, const std::string& name) {
  const auto header = checked_header(bytes, name);
  // From here on the header is what a writer wrote; it may still be a hostile one.
  const auto count = container_format::load<uint32_t>(header, container_format::section_count_at);
  Container container;
  container.name_ = name;
  container.sections_.reserve(count);
  uint64_t end = header.size();
  uint64_t chunks = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto entry =
        header.subspan(container_format::fixed_size + i * container_format::entry_size, container_format::entry_size);
    Container::Section section;
    section.kind = checked_kind(entry, name);
    if (container.has(section.kind)) refuse(name, "the engine has two sections '" + section.kind + "'");
    section.offset = container_format::load<uint64_t>(entry, container_format::entry_offset_at);
    const auto size = container_format::load<uint64_t>(entry, container_format::entry_size_at);
    const uint64_t expected = container_format::align_up(end, container_page);  // end <= bytes.size(): no overflow
    if (section.offset != expected) {
      refuse(name, "section '" + section.kind + "' of the engine starts at byte " + std::to_string(section.offset) +
                       " instead of " + std::to_string(expected));
    }
    if (section.offset > bytes.size() || size > bytes.size() - section.offset)
      refuse(name, "section '" + section.kind + "' of the engine reaches beyond the end of the file");
    check_padding(bytes, end, section.offset, name);
    section.bytes = bytes.subspan(section.offset, size);
    end = section.offset + size;
    chunks += container_format::chunk_count(size);
    container.sections_.push_back(std::move(section));
  }
  if (end != bytes.size()) refuse(name, "bytes follow the last section of the engine");
  const size_t table_end = container_format::fixed_size + count * container_format::entry_size;
  if (header.size() != table_end + chunks * sizeof(uint64_t))
    refuse(name, "the engine's header has not one checksum for every part");
  size_t next = table_end;
  for (Container::Section& section : container.sections_) {
    section.checksums.resize(container_format::chunk_count(section.bytes.size()));
    const size_t size = section.checksums.size() * sizeof(uint64_t);
    if (size != 0) std::memcpy(section.checksums.data(), header.data() + next, size);
    next += size;
  }
  return container;
}

Container open_container(std::span<const std::byte> bytes, const std::string& name) {
  Container container = Container::read_header(bytes, name);
  container.verify(container.sections_);
  return container;
}

Container open_container(std::shared_ptr<const MappedFile> file, std::string_view last, bool releases) {
  Container container = Container::read_header(file->bytes(), file->path());
  std::span<const Container::Section> checked = container.sections_;
  if (!checked.empty() && checked.back().kind == last) checked = checked.first(checked.size() - 1);
  if (!checked.empty() && !releases) file->prefetch(0, checked.back().offset + checked.back().bytes.size());
  container.releases_ = releases;
  container.file_ = std::move(file);
  container.verify(checked);
  return container;
}

void Container::verify(std::string_view kind) const {
  for (const Section& section : sections_)
    if (section.kind == kind) verify(std::span(&section, 1));
}

void Container::verify(std::span<const Section> sections) const {
  struct Chunk {
    const Section* section;
    uint64_t begin, checksum;
  };
  std::vector<Chunk> chunks;
  for (const Section& section : sections)
    for (size_t i = 0; i < section.checksums.size(); ++i)
      chunks.push_back({&section, i * container_chunk, section.checksums[i]});
  // A thread for every four chunks: starting one takes as long as two thirds of a chunk.
  const auto threads = static_cast<int>(
      std::clamp<size_t>(std::min<size_t>(chunks.size() / 4, static_cast<size_t>(available_cores())), 1, most_threads));
  for_each_parallel(threads, chunks.size(), [&](size_t i) {
    const auto& [section, begin, checksum] = chunks[i];
    const auto size = static_cast<size_t>(std::min<uint64_t>(container_chunk, section->bytes.size() - begin));
    if (releases_) file_->prefetch(section->offset + begin, 2 * size);
    const bool is_right = hash64(section->bytes.subspan(begin, size)) == checksum;
    if (releases_) file_->release(section->offset + begin, size);
    if (is_right) return;
    refuse(name_, "section '" + section->kind + "' of the engine is damaged, somewhere in bytes " +
                      std::to_string(section->offset + begin) + " to " +
                      std::to_string(section->offset + begin + size - 1) + " of the file");
  });
}

bool Container::has(std::string_view kind) const {
  return std::any_of(sections_.begin(), sections_.end(), [&](const Section& section) { return section.kind == kind; });
}

std::span<const std::byte> Container::section(std::string_view kind) const {
  for (const Section& section : sections_)
    if (section.kind == kind) return section.bytes;
  refuse(name_, "the engine has no section '" + std::string(kind) + "'");
}

}  // namespace camshaft
