#include "runtime/weight_stream.h"

namespace camshaft {

WeightStream::Run::Run(WeightStream& stream, const Cancellation& cancellation, DeviceQueue* queue)
    : loader_(stream.loader()), cancellation_(cancellation) {
  loader_.take_turn(cancellation, queue);
}

WeightStream::Run::~Run() {
  loader_.end(step_);
}

void WeightStream::Run::start(std::span<const int32_t> steps) {
  loader_.begin(steps);
}

void WeightStream::Run::await() {
  loader_.await(step_, cancellation_);
}

void WeightStream::Run::done() {
  loader_.done(step_++);
}

void WeightStream::Run::start_recording(size_t count) {
  recorded_from_ = step_;
  loader_.start_recording(step_, count);
}

void WeightStream::Run::finish_recording() {
  step_ = recorded_from_;
  loader_.finish_recording();
}

void WeightStream::Run::replayed(size_t count) {
  loader_.replayed(step_, count);
  step_ += count;
}

}  // namespace camshaft
