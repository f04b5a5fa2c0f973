// `lockstep compile` and `lockstep export`: compile a model's graphs ahead of time. config.json ─► graphs ─► a
// backend's compiler ─► its cache, and a folder. No weights, no devices, no MPI.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <system_error>

#include "engine/drivers.h"
#include "engine/group/build_id.h"
#include "launcher/inspect/compile.h"
#include "launcher/inspect/compile_plan.h"
#include "launcher/inspect/compile_report.h"
#include "launcher/process/interruption.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/stderr_log.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/log.h"

namespace lockstep::launcher {
namespace {

/// On Ctrl-C, ends running compilers and the waits for other processes' compilations.
class Ending {
 public:
  const StopEvent& stop() const { return stop_; }
  const AbortFlag& abort() const { return abort_; }

 private:
  void raise() {
    stop_.raise();
    abort_.raise({ErrorKind::kCancelled, "[launcher] compilation was interrupted"});
  }

  StopEvent stop_;
  AbortFlag abort_;
  Interruption interruption_{[this](int number) {
    if (number != SIGUSR1) raise();
  }};
};

Result<void> make_folder(const std::filesystem::path& folder, std::string_view option) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!failed && std::filesystem::is_directory(folder)) return ok();
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] {}: cannot make the folder {}: {}; name another one", option, folder.string(),
                           failed.message())};
}

Result<void> write_modules(const std::filesystem::path& folder, const device::AheadCompilation& compilation) {
  LOCKSTEP_TRY_VOID(make_folder(folder, "--modules"));
  for (size_t i = 0; i < compilation.steps(); ++i) {
    const device::StepModule module = compilation.module(i);
    const std::span<const std::byte> parts[] = {module.bytes};
    LOCKSTEP_TRY_VOID(write_file(folder / module.file, parts));
  }
  return ok();
}

/// The first failure, with the number of failures.
Result<void> judge(std::span<const device::CompiledStep> steps) {
  const auto failed = std::ranges::find(steps, "failed", &device::CompiledStep::status);
  if (failed == steps.end()) return ok();
  Error error = failed->artifact.error();
  const auto others = std::ranges::count(steps, "failed", &device::CompiledStep::status) - 1;
  if (others > 0) error.message += fmt::format("\n({} more of {} graphs failed, see above)", others, steps.size());
  return error;
}

/// The command's graphs and their compiler. `ending` and `log` outlive it.
Result<std::unique_ptr<device::AheadCompilation>> open_compilation(const CompileCommand& command, const Ending& ending,
                                                                   const Log& log) {
  LOCKSTEP_TRY(const device::BackendDriver* driver, engine::find_driver(command.engine.backend));
  LOCKSTEP_TRY_VOID(driver->check_options(command.engine.backend_options));
  LOCKSTEP_CHECK(driver->compiler() != nullptr, command.engine.backend);
  LOCKSTEP_TRY(const CompilePlan plan, plan_compilation(command, driver->capabilities()));
  if (!plan.warning.empty()) log.warning("warning: {}", plan.warning);
  const device::AheadSite site{.build = group::build_id(),
                               .environment = own_variable,
                               .log = &log,
                               .abort = &ending.abort(),
                               .stop = &ending.stop()};
  LOCKSTEP_TRY(auto compilation, driver->compiler()->open(plan.graphs(), site, command.engine.backend_options));
  for (const std::string& warning : compilation->warnings()) log.warning("warning: {}", warning);
  if (command.modules) LOCKSTEP_TRY_VOID(write_modules(*command.modules, *compilation));
  return compilation;
}

/// Compiles everything and reports it; returns the outcome of each step, failed ones included.
Result<std::vector<device::CompiledStep>> compile_and_report(const CompileCommand& command,
                                                             const device::AheadCompilation& compilation) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  std::vector<device::CompiledStep> compiled =
      compile_steps(compilation, command.jobs, [](const device::CompiledStep& step) {
        fmt::print("{}\n", to_line(step));
        std::fflush(stdout);
      });
  const double seconds = to_seconds(clock.now() - begin);
  fmt::print("{}\n", to_summary(compilation.facts(), compiled, seconds));
  if (command.json) LOCKSTEP_TRY_VOID(write_text_file(*command.json, to_json(compilation.facts(), compiled, seconds)));
  LOCKSTEP_TRY_VOID(judge(compiled));
  return compiled;
}

}  // namespace

Result<void> compile(const CompileCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  const Ending ending;  // before other threads start
  const Log log(stderr_sink(0));
  LOCKSTEP_TRY(const auto compilation, open_compilation(command, ending, log));
  LOCKSTEP_TRY_VOID(compile_and_report(command, *compilation));
  return ok();
}

Result<void> export_artifacts(const ExportCommand& command) {
  LOCKSTEP_TRY_VOID(make_folder(command.to, "--to"));
  if (command.compile.json) LOCKSTEP_TRY_VOID(check_writable(*command.compile.json, "--json"));
  const Ending ending;  // before other threads start
  const Log log(stderr_sink(0));
  LOCKSTEP_TRY(const auto compilation, open_compilation(command.compile, ending, log));
  LOCKSTEP_TRY(const std::vector<device::CompiledStep> compiled, compile_and_report(command.compile, *compilation));
  LOCKSTEP_TRY(const Bytes copied, compilation->export_to(command.to, compiled));
  fmt::print("{} copied to {}; start with --artifacts {}\n", to_string(copied), command.to.string(),
             command.to.string());
  return ok();
}

}  // namespace lockstep::launcher
