// Counts compilations. The set of graphs is closed after warm-up: a later compilation is an error in strict mode,
// naming the graph and its shapes, and is counted separately otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/backend.h"

namespace lockstep::device {

/// A backend that forwards to another one and lists its compilations. The other backend outlives it.
class GraphRegister final : public Backend {
 public:
  enum class AfterClose { kRefuse, kCount };

  GraphRegister(Backend& inner, AfterClose after_close) : inner_(inner), after_close_(after_close) {}

  std::string_view name() const override { return inner_.name(); }
  Capabilities capabilities() const override { return inner_.capabilities(); }
  Result<std::unique_ptr<Store>> make_store(std::span<const StepGraph> steps) override {
    return inner_.make_store(steps);
  }
  Result<std::unique_ptr<Executable>> compile(const StepGraph& step, Store& store,
                                              const CompileOptions& options) override;

  /// Until `close`, called before each compilation on the compiling thread.
  void before_compile(std::function<void()> notice) { before_compile_ = std::move(notice); }

  /// Ends the warm-up.
  void close() { closed_ = true; }

  /// The graphs compiled before `close`, in order: "prefill rows=256 slots=4".
  const std::vector<std::string>& compiled() const { return compiled_; }
  const std::vector<std::string>& compiled_after_close() const { return compiled_after_close_; }

 private:
  Backend& inner_;
  AfterClose after_close_;
  bool closed_ = false;
  std::function<void()> before_compile_;
  std::vector<std::string> compiled_, compiled_after_close_;
};

}  // namespace lockstep::device
