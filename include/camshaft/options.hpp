// What a build or a context is to do, by the names that the command line has.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/cancellation.hpp"
#include "camshaft/error.hpp"
#include "camshaft/record.hpp"
#include "camshaft/tensor.hpp"

namespace camshaft {
inline namespace v1 {

/// The smallest, the usual and the largest shape of one input, each of the input's rank.
struct ShapeRange {
  Dims min, opt, max;
};

/// One range an input, by name; inputs that are not named take any size. Kernels are chosen for `opt`. A shape outside
/// every profile of an engine is refused at run time; an engine without profiles takes any shape.
struct Profile {
  std::map<std::string, ShapeRange> inputs;
};

namespace detail {

/// A function of the caller's, and what it threw while the library called it.
template <class Function>
struct Callback {
  std::function<Function> call;
  std::exception_ptr thrown;

  /// 0, or 1 when the function threw, which ends what the library does.
  template <class... Arguments>
  int32_t operator()(Arguments&&... arguments) noexcept {
    try {
      call(std::forward<Arguments>(arguments)...);
      return 0;
    } catch (...) {
      thrown = std::current_exception();
      return 1;
    }
  }
  /// Throws that now, if there is something.
  void rethrow() {
    if (thrown) std::rethrow_exception(std::exchange(thrown, nullptr));
  }
};

}  // namespace detail

/// Worker threads that contexts share. Runs that overlap in time divide them evenly; results do not depend on how many
/// a run gets. Copies are the same threads.
class Workers {
 public:
  /// `threads` counts the callers of runs too, which always run: beside them compute at most as many workers as remain
  /// of it, none where the callers are as many or more. 0: one for each core that the process may use. Throws
  /// Error(invalid_argument) below 0.
  explicit Workers(int threads = 0) {
    camshaft_workers* made = nullptr;
    detail::check(camshaft_workers_create(threads, &made));
    handle_.reset(made, camshaft_workers_free);
  }
  const camshaft_workers* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<camshaft_workers> handle_;
};

/// Options by name, which docs/options.md lists: BuildOptions().set("fp16", true). Copies are independent.
template <int32_t What>
class Options {
 public:
  Options() {
    camshaft_options* made = nullptr;
    detail::check(camshaft_options_create(What, &made));
    handle_.reset(made);
  }
  Options(const Options& other) : progress_(other.progress_) {
    camshaft_options* made = nullptr;
    detail::check(camshaft_options_copy(other.handle(), &made));
    handle_.reset(made);
  }
  Options(Options&&) noexcept = default;
  Options& operator=(Options other) noexcept {
    handle_.swap(other.handle_);
    progress_.swap(other.progress_);
    return *this;
  }
  ~Options() = default;

  /// A boolean, a number, or text, which may stand for either ("true", "0.5"). A list gets one more item. Throws
  /// Error(invalid_argument), which names what was probably meant, for an unknown name or a value that does not fit.
  template <class T>
  Options& set(std::string_view name, const T& value) {
    const std::string text(name);
    if constexpr (std::is_same_v<T, bool>) {
      detail::check(camshaft_options_set_boolean(own(), text.c_str(), value ? 1 : 0));
    } else if constexpr (std::is_integral_v<T>) {
      detail::check(camshaft_options_set_integer(own(), text.c_str(), static_cast<int64_t>(value)));
    } else if constexpr (std::is_floating_point_v<T>) {
      detail::check(camshaft_options_set_number(own(), text.c_str(), value));
    } else {
      detail::check(camshaft_options_set(own(), text.c_str(), std::string(value).c_str()));
    }
    return *this;
  }
  /// What an option is now.
  Record get(std::string_view name) const {
    return detail::record_of(
        [&](camshaft_record** value) { return camshaft_options_get(handle(), std::string(name).c_str(), value); });
  }
  /// All options, as camshaft_options_list() says.
  static Record list() {
    return detail::record_of([](camshaft_record** all) { return camshaft_options_list(What, all); });
  }

  // Of builds, and but for set_inputs() of calibrations:

  /// One more range of shapes to tune for and to accept.
  Options& add_profile(const Profile& profile) {
    NamedShapes min, opt, max;
    for (const auto& [name, range] : profile.inputs) {
      min[name] = range.min;
      opt[name] = range.opt;
      max[name] = range.max;
    }
    detail::check(camshaft_options_add_profile(own(), detail::shapes_of(min).get(), detail::shapes_of(opt).get(),
                                               detail::shapes_of(max).get()));
    return *this;
  }
  /// No ranges: any shape.
  Options& clear_profiles() {
    detail::check(camshaft_options_clear_profiles(own()));
    return *this;
  }
  /// Inputs to verify the engine on; those left out are made from "seed". Memory of the caller's must stay valid until
  /// the build is done.
  Options& set_inputs(const NamedTensors& inputs) {
    detail::check(camshaft_options_set_inputs(own(), detail::tensors_of(inputs).get()));
    return *this;
  }
  /// One more set of them, of other sizes if need be: judged as long as "verify-seconds" is expected to suffice.
  Options& add_inputs(const NamedTensors& inputs) {
    detail::check(camshaft_options_add_inputs(own(), detail::tensors_of(inputs).get()));
    return *this;
  }
  /// Called with what is being done ("optimising", "verifying", …) and how far it is, in [0, 1]. What it throws ends
  /// the build. An empty function: nobody is told.
  Options& set_progress(std::function<void(std::string_view stage, double fraction)> progress) {
    if (!progress) {
      detail::check(camshaft_options_set_progress(own(), nullptr, nullptr));
      progress_.reset();
      return *this;
    }
    auto callback = std::make_shared<Progress>();
    callback->call = std::move(progress);
    detail::check(camshaft_options_set_progress(
        own(),
        [](void* user, const char* stage, double fraction) {
          return (*static_cast<Progress*>(user))(std::string_view(stage), fraction);
        },
        callback.get()));
    progress_ = std::move(callback);
    return *this;
  }
  Options& set_cancellation(const Cancellation& cancellation) {
    detail::check(camshaft_options_set_cancellation(own(), cancellation.handle()));
    return *this;
  }

  // Of contexts:

  /// Without, a context shares the threads of the process; with more "threads" than cores it has its own.
  Options& set_workers(const Workers& workers) {
    detail::check(camshaft_options_set_workers(own(), workers.handle()));
    return *this;
  }

  const camshaft_options* handle() const { return handle_.get(); }
  /// Throws what the function of set_progress() threw, once.
  void rethrow() const {
    if (progress_) progress_->rethrow();
  }

 private:
  using Progress = detail::Callback<void(std::string_view, double)>;
  struct Free {
    void operator()(camshaft_options* options) const { camshaft_options_free(options); }
  };
  camshaft_options* own() { return handle_.get(); }

  std::unique_ptr<camshaft_options, Free> handle_;
  std::shared_ptr<Progress> progress_;
};

using BuildOptions = Options<CAMSHAFT_BUILD>;
using ContextOptions = Options<CAMSHAFT_CONTEXT>;
using CalibrationOptions = Options<CAMSHAFT_CALIBRATION>;
using LoadOptions = Options<CAMSHAFT_LOAD>;

}  // namespace v1
}  // namespace camshaft
