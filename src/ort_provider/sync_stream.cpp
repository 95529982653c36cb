#include "ort_provider/sync_stream.h"

#include <utility>

namespace camshaft::ort_provider {

namespace {

using ort::slot;

struct Moment : SyncNotification {
  Moment(const Host& of, std::shared_ptr<WorkStream> in)
      : host(of), work(std::move(in)), event(work->stream().device()) {
    release = [](SyncNotification* self) { delete static_cast<Moment*>(self); };
    activate = [](SyncNotification* self) {
      auto* own = static_cast<Moment*>(self);
      return own->host.guarded([&] { own->event.record(own->work->stream()); });
    };
    wait_on_device = [](SyncNotification* self, OrtSyncStream* consumer) {
      auto* own = static_cast<Moment*>(self);
      return own->host.guarded(
          [&] { own->event.hold_back(cuda::Stream(own->work->stream().device(), handle_of(own->host, consumer))); });
    };
    wait_on_host = [](SyncNotification* self) {
      auto* own = static_cast<Moment*>(self);
      return own->host.guarded([&] { own->event.synchronize(); });
    };
  }
  const Host& host;
  std::shared_ptr<WorkStream> work;
  cuda::Event event;
};

struct Stream : SyncStream {
  Stream(const Host& of, std::shared_ptr<WorkStream> in) : host(of), work(std::move(in)) {
    release = [](SyncStream* self) {
      auto* own = static_cast<Stream*>(self);
      // What failed in it nobody asks for any more; the memory that it used is free then.
      if (own->work->is_own()) own->host.call<void>(slot("ReleaseStatus"), wait(self));
      delete own;
    };
    handle = [](SyncStream* self) { return static_cast<Stream*>(self)->work->handle(); };
    create_notification = [](SyncStream* self, SyncNotification** notification) {
      auto* own = static_cast<Stream*>(self);
      return own->host.guarded([&] { *notification = new Moment(own->host, own->work); });
    };
    flush = [](SyncStream* self) { return static_cast<Stream*>(self)->work->is_own() ? wait(self) : nullptr; };
    on_run_end = flush;  // of the two only this one's failure is the run's
  }

  static OrtStatus* wait(SyncStream* self) {
    auto* own = static_cast<Stream*>(self);
    return own->host.guarded([&] { own->work->wait(); });
  }

  const Host& host;
  std::shared_ptr<WorkStream> work;
};

}  // namespace

SyncStream* make_sync_stream(const Host& host, std::shared_ptr<WorkStream> work) {
  return new Stream(host, std::move(work));
}

void* handle_of(const Host& host, const OrtSyncStream* stream) {
  return host.call<void*>(slot("SyncStream_GetHandle"), stream);
}

std::shared_ptr<WorkStream> stream_of(const Host& host, const OrtKernelContext* kernel, const cuda::Device& device,
                                      bool may_be_default) {
  auto* const handle = host.get<void*>(slot("KernelContext_GetGPUComputeStream"), kernel);
  return handle || may_be_default ? WorkStream::of(device, handle) : nullptr;
}

}  // namespace camshaft::ort_provider
