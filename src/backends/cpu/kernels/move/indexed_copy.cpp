#include "backends/cpu/kernels/move/indexed_copy.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backends/cpu/kernels/move/element_bytes.h"
#include "base/error.h"
#include "base/pieces.h"

namespace camshaft::cpu {
namespace {

// Beyond that, axes are walked to their single positions: then each is inside or not.
constexpr size_t most_boxes = 1024, most_jobs = 4 * most_boxes;
// A position takes 32 bytes of tables.
constexpr int64_t many_positions = 1 << 16, most_positions = 1 << 24;

int64_t quotient_up(int64_t a, int64_t b) {  // b > 0
  return a / b + (a % b > 0);
}

}  // namespace

IndexedCopy::IndexedCopy(int64_t width, const std::vector<Axis>& axes, const std::vector<Source>& sources, bool wraps)
    : width_(width), wraps_(wraps) {
  int64_t bytes = width;
  for (const Axis& axis : axes) {
    bytes *= axis.size;
    const auto* source = axis.along >= 0 ? &sources[static_cast<size_t>(axis.along)] : nullptr;
    if (source && source->leaves) continue;
    dims_.push_back(axis.size);
    in_.push_back(source ? axis.step * source->stride : 0);
    out_.push_back(axis.out_stride);
  }
  std::vector<size_t> left;
  for (size_t d = 0; d < sources.size(); ++d) {
    if (sources[d].leaves)
      left.push_back(d);
    else
      start_ += sources[d].start * sources[d].stride * width;
  }
  if (left.size() > most_left)
    throw Error(ErrorCode::unsupported,
                "an index map leaves " + std::to_string(left.size()) + " axes, more than " + std::to_string(most_left));
  size_t combinations = 1;
  for (const bool keeps_axis : {true, false}) {
    walks_.clear();
    combinations = 1;
    size_t jobs = 1;  // of a box
    for (const size_t d : left) {
      walks_.push_back(walk_of(axes, static_cast<int64_t>(d), sources[d], keeps_axis));
      const std::vector<Pattern>& patterns = walks_.back().patterns;
      size_t segments = 1;
      for (const Pattern& pattern : patterns) segments = std::max(segments, pattern.size());
      combinations = std::min(combinations * patterns.size(), most_boxes + 1);
      jobs = std::min(jobs * segments, most_jobs + 1);
    }
    if (combinations <= most_boxes && combinations * jobs <= most_jobs) break;
  }
  for (size_t c = 0; c < combinations; ++c) {
    std::vector<const Pattern*> patterns;
    size_t rest = c;
    for (const Walk& walk : walks_) {
      patterns.push_back(&walk.patterns[rest % walk.patterns.size()]);
      rest /= walk.patterns.size();
    }
    boxes_.push_back(box_of(patterns));
  }
  for (const Walk& walk : walks_) items_ *= static_cast<int64_t>(walk.out.size());
  item_bytes_ = bytes / items_;
}

// Walks the axes along `d`, but for the one whose positions are closest in the result if it `keeps_axis`; where many
// would be walked, but for the longest.
IndexedCopy::Walk IndexedCopy::walk_of(const std::vector<Axis>& axes, int64_t d, const Source& source,
                                       bool keeps_axis) const {
  Walk walk;
  const Axis *kept = nullptr, *longest = nullptr;
  int64_t all = 1;
  for (const Axis& axis : axes) {
    if (axis.along != d || axis.size == 1) continue;
    all *= axis.size;
    if (!kept || axis.out_stride < kept->out_stride) kept = &axis;
    if (!longest || axis.size > longest->size) longest = &axis;
  }
  if (kept && all / kept->size > many_positions) kept = longest;
  // Each time round is a segment.
  const bool has_many_segments =
      kept && wraps_ && std::abs(kept->step) * (kept->size - 1) / source.length >= static_cast<int64_t>(most_boxes);
  if (!keeps_axis || has_many_segments) kept = nullptr;
  if (kept) {
    walk.free_size = kept->size;
    walk.free_in = kept->step * source.stride;
    walk.free_out = kept->out_stride;
  }
  std::vector<const Axis*> walked;
  int64_t positions = 1;
  for (const Axis& axis : axes) {
    if (axis.along != d || &axis == kept) continue;
    walked.push_back(&axis);
    positions *= axis.size;
  }
  if (positions > most_positions)
    throw Error(ErrorCode::unsupported, "an index map leaves an axis at " + std::to_string(positions) +
                                            " positions that are walked one by one, more than " +
                                            std::to_string(most_positions));
  for (int64_t p = 0; p < positions && walk.patterns.size() <= most_boxes; ++p) {
    int64_t index = source.start, out = 0, rest = p;
    for (size_t a = walked.size(); a-- > 0; rest /= walked[a]->size) {
      index += rest % walked[a]->size * walked[a]->step;
      out += rest % walked[a]->size * walked[a]->out_stride * width_;
    }
    walk.out.push_back(out);
    cut(index, kept ? kept->step : 0, source, walk);
  }
  return walk;
}

// Appends how the axis inside the box is cut where it begins at `index` of the operand's.
void IndexedCopy::cut(int64_t index, int64_t step, const Source& source, Walk& walk) const {
  const int64_t n = source.length, count = walk.free_size;
  Pattern pattern;
  walk.first.push_back(walk.in.size());
  const auto add = [&](int64_t begin, int64_t length, int64_t from) {
    pattern.push_back({begin, length});
    walk.in.push_back(from * source.stride * width_);
  };
  if (wraps_) {
    for (int64_t i = 0; i < count;) {
      const int64_t at = ((index + i * step) % n + n) % n;
      const int64_t left = step == 0 ? count : step > 0 ? (n - 1 - at) / step + 1 : at / -step + 1;
      const int64_t length = std::min(left, count - i);
      add(i, length, at);
      i += length;
    }
  } else {
    int64_t begin = 0, end = index >= 0 && index < n ? count : 0;
    if (step != 0) {
      // 0 <= index + i · step < n, counted from the other end for negative steps.
      const int64_t up = std::abs(step), low = step > 0 ? -index : index - n + 1, high = low + n;
      begin = std::clamp<int64_t>(quotient_up(low, up), 0, count);
      end = std::clamp<int64_t>(quotient_up(high, up), begin, count);
    }
    if (begin < end) add(begin, end - begin, index + begin * step);
  }
  const auto known = std::find(walk.patterns.begin(), walk.patterns.end(), pattern);
  walk.pattern.push_back(static_cast<size_t>(known - walk.patterns.begin()));
  if (known == walk.patterns.end()) walk.patterns.push_back(std::move(pattern));
}

IndexedCopy::Box IndexedCopy::box_of(const std::vector<const Pattern*>& patterns) const {
  Box box;
  // Of each walk's axis a segment, or the part that is filled.
  const auto add = [&](const std::vector<Segment>& parts, std::vector<size_t> segment, bool fills) {
    std::vector<int64_t> dims = dims_, in = in_, out = out_;
    int64_t offset = 0;
    for (size_t w = 0; w < walks_.size(); ++w) {
      dims.push_back(parts[w].count);
      in.push_back(walks_[w].free_in);
      out.push_back(walks_[w].free_out);
      offset += parts[w].begin * walks_[w].free_out * width_;
    }
    if (fills) std::fill(in.begin(), in.end(), 0);
    box.push_back({StridedCopy(width_, dims, in, out), offset, fills, std::move(segment)});
  };
  size_t copies = 1;
  for (const Pattern* pattern : patterns) copies *= pattern->size();
  for (size_t c = 0; c < copies; ++c) {
    std::vector<Segment> parts;
    std::vector<size_t> segment;
    size_t rest = c;
    for (const Pattern* pattern : patterns) {
      segment.push_back(rest % pattern->size());
      parts.push_back((*pattern)[segment.back()]);
      rest /= pattern->size();
    }
    add(parts, std::move(segment), false);
  }
  if (wraps_) return box;
  // What is outside along one axis, inside along those before it, and anywhere along those behind it.
  std::vector<Segment> parts;
  for (const Walk& walk : walks_) parts.push_back({0, walk.free_size});
  for (size_t w = 0; w < walks_.size(); ++w) {
    const Segment inside = patterns[w]->empty() ? Segment{} : patterns[w]->front();
    const int64_t end = inside.begin + inside.count;
    for (const Segment& outside : {Segment{0, inside.begin}, Segment{end, walks_[w].free_size - end}}) {
      parts[w] = outside;
      if (outside.count > 0) add(parts, {}, true);
    }
    if (inside.count == 0) break;
    parts[w] = inside;
  }
  return box;
}

template <class Run>
void IndexedCopy::run_item(int64_t item, const char* in, char* out, const char* fill, Run&& run) const {
  size_t box = 0, combinations = 1, position[most_left];
  for (size_t w = 0; w < walks_.size(); ++w) {
    const Walk& walk = walks_[w];
    const auto positions = static_cast<int64_t>(walk.out.size());
    position[w] = static_cast<size_t>(item % positions);
    item /= positions;
    box += walk.pattern[position[w]] * combinations;
    combinations *= walk.patterns.size();
    out += walk.out[position[w]];
  }
  for (const Job& job : boxes_[box]) {
    const char* from = in + start_;
    for (size_t w = 0; w < job.segment.size(); ++w) from += walks_[w].in[walks_[w].first[position[w]] + job.segment[w]];
    run(job.copy, job.fills ? fill : from, out + job.out);
  }
}

void IndexedCopy::run(ThreadPool& pool, const void* in, void* out, const void* value) const {
  uint64_t filling = 0;
  if (value) std::memcpy(&filling, value, static_cast<size_t>(width_));
  const auto* from = static_cast<const char*>(in);
  const auto* fill = reinterpret_cast<const char*>(&filling);
  auto* to = static_cast<char*>(out);
  if (items_ < 2 * pool.size() && pool.size() > 1) {
    for (int64_t item = 0; item < items_; ++item)
      run_item(item, from, to, fill, [&](const StridedCopy& copy, const char* a, char* b) { copy.run(pool, a, b); });
    return;
  }
  for_pieces(pool, items_, std::max<int64_t>(1, least_bytes / std::max<int64_t>(1, item_bytes_)),
             [&](int64_t begin, int64_t end) {
               for (int64_t item = begin; item < end; ++item)
                 run_item(item, from, to, fill,
                          [&](const StridedCopy& copy, const char* a, char* b) { copy.run(a, b); });
             });
}

}  // namespace camshaft::cpu
