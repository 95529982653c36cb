#include "llm/pictures.h"

#include <xxhash.h>

#include <algorithm>

namespace camshaft::llm {

Pictures::Pictures(std::vector<Picture> pictures, int32_t block_size, uint64_t salt)
    : pictures_(std::move(pictures)), salt_(salt) {
  int32_t moved = 0, blocks = 0;
  for (const Picture& picture : pictures_) {
    if (picture.height > 0) moved += std::max(picture.height, picture.width) - picture.rows;
    moved_.push_back(moved);
    blocks = (picture.begin + picture.rows - 1) / block_size + 1;
  }
  salts_.assign(static_cast<size_t>(blocks), salt);
  for (const Picture& picture : pictures_) {
    for (int32_t block = picture.begin / block_size; block * block_size < picture.begin + picture.rows; ++block) {
      uint64_t& of_block = salts_[static_cast<size_t>(block)];
      const auto begin = static_cast<uint64_t>(int64_t{picture.begin} - int64_t{block} * block_size);
      const std::array<uint64_t, 4> what = {of_block, begin, picture.digest[0], picture.digest[1]};
      of_block = XXH3_64bits(what.data(), sizeof what);
    }
  }
}

bool Pictures::are_ready() const {
  return std::ranges::all_of(pictures_, [](const Picture& each) { return each.embeddings->values != nullptr; });
}

Position Pictures::position(int32_t token) const {
  const auto behind = std::ranges::upper_bound(pictures_, token, {}, &Picture::begin);  // the next one
  const auto before = static_cast<size_t>(behind - pictures_.begin());
  if (before == 0) return {token, token, token};
  const Picture& last = pictures_[before - 1];
  const int32_t place = token - last.begin;
  if (place >= last.rows || last.height == 0) {
    const int32_t moved = token + moved_[before - 1];
    return {moved, moved, moved};
  }
  const int32_t start = last.begin + (before == 1 ? 0 : moved_[before - 2]);
  return {start, start + place / last.width, start + place % last.width};
}

}  // namespace camshaft::llm
