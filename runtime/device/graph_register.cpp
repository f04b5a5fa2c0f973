#include "runtime/device/graph_register.h"

#include <fmt/format.h>

namespace lockstep::device {

Result<std::unique_ptr<Executable>> GraphRegister::compile(const StepGraph& step, Store& store,
                                                           const CompileOptions& options) {
  const std::string description = fmt::format("{} rows={} slots={}", step.own.name, step.own.rows, step.own.slots);
  if (closed_ && after_close_ == AfterClose::kRefuse) {
    return Error{
        ErrorKind::kFailedPrecondition,
        fmt::format("[runtime/device] cannot compile after warm-up: found a request for the graph {}, expected "
                    "only the graphs of the start ({}); name its shape at start, or allow it with --no-strict",
                    description, fmt::join(compiled_, "; "))};
  }
  if (!closed_ && before_compile_) before_compile_();
  LOCKSTEP_TRY(auto executable, inner_.compile(step, store, options));
  (closed_ ? compiled_after_close_ : compiled_).push_back(description);
  return executable;
}

}  // namespace lockstep::device
