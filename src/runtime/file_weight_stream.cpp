#include "runtime/file_weight_stream.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/resident_parts.h"
#include "base/seconds_since.h"
#include "base/steady_condition.h"
#include "runtime/run_turns.h"

namespace camshaft {

namespace {

// Read at once: the disk gives 0.3 GB/s for 2 MiB at a time, 1.1 for 8 and 1.2 for 16 (a virtual disk).
constexpr size_t most_at_once = size_t{16} << 20;
// How often who waits looks whether it was cancelled.
constexpr auto look_up = std::chrono::milliseconds(20);

}  // namespace

/// What the blocks of a run are read for, in order: use u of the l-th run is number l * uses + u.
class FileWeightStream::Reader final : public Loader {
 public:
  explicit Reader(const FileWeightStream& stream)
      : stream_(stream), parts_(stream.file_), held_(stream.blocks_.count, 0), is_here_(stream.blocks_.count, false) {}

  ~Reader() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    try {
      drop_all();
    } catch (const Error&) {  // it goes with the mapping
    }
  }

  bool is_of_parent() const { return process_ != getpid(); }

  void take_turn(const Cancellation& cancellation, DeviceQueue*) override {
    turns_.take(cancellation);
    const std::lock_guard lock(mutex_);
    has_run_ = true;
  }

  void begin(std::span<const int32_t> steps) override {
    std::unique_lock lock(mutex_);
    if (is_closed_) return;
    sweeps_ = true;
    if (is_broken_ || !std::equal(steps.begin(), steps.end(), steps_.begin(), steps_.end())) {
      steps_.assign(steps.begin(), steps.end());
      restarts_ = true;
    }
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { work(); });
      pthread_setname_np(thread_.native_handle(), "camshaft-weights");
    }
    wake_.notify_all();
    changed_.wait(lock, [&] { return !restarts_ && !sweeps_; });
  }

  void await(size_t step, const Cancellation& cancellation) override {
    std::unique_lock lock(mutex_);
    if (is_closed_) return;
    const size_t wanted = begin_ + ends_[step];
    if (brought_ >= wanted) return;
    const auto start = std::chrono::steady_clock::now();
    while (brought_ < wanted && !failure_) {
      if (cancellation.cancelled()) throw Error(ErrorCode::cancelled, "cancelled while waiting for its weights");
      wait_a_while(lock);
    }
    waited_seconds_ += seconds_since(start);
    if (brought_ < wanted) std::rethrow_exception(failure_);
  }

  void done(size_t step) override {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    done_ = begin_ + ends_[step];
    wake_.notify_all();
  }

  void end(size_t steps_done) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      has_run_ = false;
      is_broken_ = is_broken_ || steps_done < steps_.size() || failure_ != nullptr;
      if (!is_broken_) begin_ += uses_.size();
      wake_.notify_all();
      changed_.notify_all();
    }
    turns_.give();
  }

  void close() {
    turns_.take({});
    struct Turn {
      RunTurns& turns;
      ~Turn() { turns.give(); }
    } const turn{turns_};
    {
      const std::lock_guard lock(mutex_);
      stops_ = is_closed_ = true;
      wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    drop_all();
  }

  StreamCounts counts() {
    const std::lock_guard lock(mutex_);
    return {brought_bytes_,
            static_cast<int64_t>(std::count(is_here_.begin(), is_here_.end(), true) *
                                 static_cast<std::ptrdiff_t>(stream_.blocks_.block_bytes)),
            waited_seconds_};
  }

 private:
  void wait_a_while(std::unique_lock<std::mutex>& lock) {
    changed_.wait_until(lock, std::chrono::steady_clock::now() + look_up);
  }

  struct Blocks {
    uint32_t first = 0, count = 0;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (!stops_) {
      try {
        if (restarts_) {
          restart(lock);
        } else if (sweeps_) {
          sweep(lock);
        } else if (failure_ || !(release(lock) || bring(lock))) {
          wake_.wait(lock);
        }
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        failure_ = std::current_exception();
        restarts_ = sweeps_ = false;
        changed_.notify_all();
      }
    }
  }

  // Begins anew with the steps of the run that waits for that.
  void restart(std::unique_lock<std::mutex>& lock) {
    std::vector<uint32_t> coming;
    for (uint32_t block = 0; block < is_here_.size(); ++block)
      if (is_here_[block] && !stream_.plan_.stays[block]) coming.push_back(block);
    std::fill(held_.begin(), held_.end(), 0);
    uses_.clear();
    ends_.clear();
    for (const int32_t step : steps_) {
      const std::vector<uint32_t>& blocks = stream_.blocks_.steps[static_cast<size_t>(step)];
      uses_.insert(uses_.end(), blocks.begin(), blocks.end());
      ends_.push_back(uses_.size());
    }
    begin_ = brought_ = done_ = released_ = 0;
    failure_ = nullptr;
    is_broken_ = false;
    drop(lock, coming);
    restarts_ = false;
    changed_.notify_all();
  }

  // What others have read of the file meanwhile, as when kernels were prepared.
  void sweep(std::unique_lock<std::mutex>& lock) {
    lock.unlock();  // only this thread changes what is here
    const size_t blocks = is_here_.size();
    for (size_t first = 0; first < blocks;) {
      size_t end = first;
      while (end < blocks && !is_here_[end]) ++end;
      if (end > first)
        stream_.file_->release(first * stream_.blocks_.block_bytes, (end - first) * stream_.blocks_.block_bytes);
      first = end + 1;
    }
    lock.lock();
    sweeps_ = false;
    changed_.notify_all();
  }

  // Gives back what steps that are done held; whether there was any.
  bool release(std::unique_lock<std::mutex>& lock) {
    if (released_ == done_) return false;
    std::vector<uint32_t> idle;
    for (; released_ < done_; ++released_) {
      const uint32_t block = uses_[released_ % uses_.size()];
      if (!stream_.plan_.stays[block] && --held_[block] == 0) idle.push_back(block);
    }
    std::sort(idle.begin(), idle.end());
    drop(lock, idle);
    return true;
  }

  // The next blocks to come that lie side by side, at most so many, and the uses up to which all are here then.
  struct Coming {
    Blocks blocks;
    size_t until = 0;
    size_t room = 0;  // that is left in the window
  };

  Coming next(size_t most) const {
    Coming next{{}, brought_, stream_.plan_.window - coming_};
    // At most up to the end of the next run.
    const size_t limit = begin_ + (has_run_ ? 2 : 1) * uses_.size();
    Blocks& run = next.blocks;
    for (; next.until < limit; ++next.until) {
      const uint32_t block = uses_[next.until % uses_.size()];
      const bool is_in_run = block >= run.first && block - run.first < run.count;
      if (is_here_[block] || is_in_run) continue;
      if (run.count > 0 && (block != run.first + run.count || run.count >= most)) break;
      if (!stream_.plan_.stays[block]) {
        if (next.room == 0) break;
        --next.room;
      }
      if (run.count == 0) run.first = block;
      ++run.count;
    }
    return next;
  }

  // Brings in the next blocks; false where there is nothing to do, or no room.
  bool bring(std::unique_lock<std::mutex>& lock) {
    // Half of the window at most: with a quarter, 8 MiB of products of which a quarter comes in, it took 1.6 s and
    // not 1.1.
    const size_t most = std::max<size_t>(
        1, std::min(most_at_once / stream_.blocks_.block_bytes, std::max<size_t>(stream_.plan_.window / 2, 1)));
    Coming coming = next(2 * most);
    const Blocks& run = coming.blocks;
    // Two halves are read sooner than a whole and a rest: the disk's time for 2 MiB is that for 7.
    if (run.count > most) coming = next(run.count == 2 * most ? most : (run.count + 1) / 2);
    if (coming.until == brought_) {
      parts_.drop_ahead();  // until there is room
      return false;
    }
    if (run.count > 0) {
      lock.unlock();
      const size_t block_bytes = stream_.blocks_.block_bytes;
      const size_t offset = run.first * block_bytes;
      const size_t bytes = std::min(run.count * block_bytes, stream_.file_->size() - offset);
      parts_.bring(offset, bytes, std::min(most, coming.room) * block_bytes);
      lock.lock();
      brought_bytes_ += static_cast<int64_t>(bytes);
      for (uint32_t block = run.first; block < run.first + run.count; ++block) {
        is_here_[block] = true;
        if (!stream_.plan_.stays[block]) ++coming_;
      }
    }
    for (; brought_ < coming.until; ++brought_) {
      const uint32_t block = uses_[brought_ % uses_.size()];
      if (!stream_.plan_.stays[block]) ++held_[block];
    }
    changed_.notify_all();
    return true;
  }

  // Blocks that come in, in ascending order.
  void drop(std::unique_lock<std::mutex>& lock, const std::vector<uint32_t>& blocks) {
    lock.unlock();
    for (size_t i = 0; i < blocks.size();) {
      size_t end = i + 1;
      while (end < blocks.size() && blocks[end] == blocks[end - 1] + 1) ++end;
      drop_run({blocks[i], static_cast<uint32_t>(end - i)});
      i = end;
    }
    lock.lock();
    for (const uint32_t block : blocks) is_here_[block] = false;
    coming_ -= blocks.size();
  }

  void drop_run(Blocks run) {
    const size_t offset = run.first * stream_.blocks_.block_bytes;
    parts_.drop(offset, std::min(run.count * stream_.blocks_.block_bytes, stream_.file_->size() - offset));
  }

  void drop_all() {
    parts_.drop(0, stream_.file_->size());
    std::fill(is_here_.begin(), is_here_.end(), false);
  }

  const FileWeightStream& stream_;
  const pid_t process_ = getpid();
  ResidentParts parts_;

  RunTurns turns_;
  std::mutex mutex_;
  std::condition_variable wake_;  // of the reader
  SteadyCondition changed_;       // what runs wait for
  std::thread thread_;
  bool stops_ = false, is_closed_ = false;
  bool restarts_ = false, sweeps_ = false;  // what the reader is to do first
  bool has_run_ = false, is_broken_ = true;
  std::exception_ptr failure_;

  std::vector<int32_t> steps_;                    // of a run
  std::vector<uint32_t> uses_;                    // their blocks
  std::vector<size_t> ends_;                      // of each of them: the uses up to its end
  size_t begin_ = 0;                              // of the run: its first use
  size_t brought_ = 0, done_ = 0, released_ = 0;  // uses
  std::vector<uint32_t> held_;                    // of each block that comes in: by how many uses
  std::vector<bool> is_here_;                     // of each block
  size_t coming_ = 0;                             // blocks that are here and do not stay
  int64_t brought_bytes_ = 0;
  double waited_seconds_ = 0;
};

FileWeightStream::FileWeightStream(std::shared_ptr<const MappedFile> file, WeightBlocks blocks, StreamingPlan plan)
    : WeightStream(std::move(blocks), std::move(plan)), file_(std::move(file)) {
  reader_ = new Reader(*this);
}

FileWeightStream::~FileWeightStream() {
  Reader* const reader = reader_;
  if (!reader->is_of_parent()) delete reader;
}

FileWeightStream::Reader& FileWeightStream::reader() {
  if (!reader_.load()->is_of_parent()) return *reader_;
  const std::lock_guard lock(child_mutex_);
  if (reader_.load()->is_of_parent()) reader_ = new Reader(*this);  // the other one's mutex may be taken for ever
  return *reader_;
}

WeightStream::Loader& FileWeightStream::loader() {
  return reader();
}

StreamCounts FileWeightStream::counts() const {
  Reader* const reader = reader_;
  return reader->is_of_parent() ? StreamCounts{} : reader->counts();
}

void FileWeightStream::close() {
  reader().close();
}

}  // namespace camshaft
