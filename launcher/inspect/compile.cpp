// `lockstep compile` and `lockstep export`: config.json ─► modules ─► compiler ─► cache, and a folder. No weights, no
// devices, no MPI.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <system_error>

#include "launcher/commands/commands.h"
#include "launcher/inspect/ahead.h"
#include "launcher/inspect/compile_report.h"
#include "launcher/inspect/compiler_options.h"
#include "launcher/process/interruption.h"
#include "launcher/process/stderr_log.h"
#include "launcher/ranks/build_id.h"
#include "launcher/ranks/compile_cache.h"
#include "runtime/cache/cache.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/atomic_file.h"
#include "runtime/core/log.h"

namespace lockstep::launcher {
namespace {

/// Ctrl-C ends the compilers that run and the waits for others.
class Ending {
 public:
  const process::ChildStop& stop() const { return stop_; }
  const AbortFlag& abort() const { return abort_; }

 private:
  void raise() {
    stop_.raise();
    abort_.raise({ErrorKind::kCancelled, "[launcher] compilation was interrupted"});
  }

  process::ChildStop stop_;
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

Result<void> write_modules(const std::filesystem::path& folder, const std::vector<neuron::LoweredStep>& steps) {
  LOCKSTEP_TRY_VOID(make_folder(folder, "--modules"));
  for (const neuron::LoweredStep& step : steps) {
    const std::vector<std::byte> bytes = neuron::module_bytes(step);
    const std::span<const std::byte> parts[] = {bytes};
    LOCKSTEP_TRY_VOID(write_file(folder / (step.module.name + ".hlo.pb"), parts));
  }
  return ok();
}

/// The first failure, saying how many there are.
Result<void> judge(std::span<const CompiledStep> steps) {
  const auto failed = std::ranges::find(steps, "failed", &CompiledStep::status);
  if (failed == steps.end()) return ok();
  Error error = failed->artifact.error();
  const auto others = std::ranges::count(steps, "failed", &CompiledStep::status) - 1;
  if (others > 0) error.message += fmt::format("\n({} more of {} graphs failed, see above)", others, steps.size());
  return error;
}

/// Compiles everything and reports it; what became of each step, whether or not it failed.
Result<std::vector<CompiledStep>> compile_and_report(const CompileCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  Ending ending;  // before any other thread
  const Log log(stderr_sink(0));
  LOCKSTEP_TRY(const CompilePlan plan, plan_compilation(command));
  for (const std::string& warning : plan.warnings) log.warning("warning: {}", warning);
  if (command.modules) LOCKSTEP_TRY_VOID(write_modules(*command.modules, plan.steps));
  LOCKSTEP_TRY(neuron::CompilerOptions options, compiler_options(command.neuron));
  options.stop = &ending.stop();
  LOCKSTEP_TRY(const neuron::Compiler compiler, neuron::Compiler::open(std::move(options)));
  LOCKSTEP_TRY(const auto cache, make_compile_cache(command.cache, log, &ending.abort()));
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  std::vector<CompiledStep> compiled =
      compile_steps(compiler, plan.steps, *cache, command.jobs, [](const CompiledStep& step) {
        fmt::print("{}\n", to_line(step));
        std::fflush(stdout);
      });
  const double seconds = to_seconds(clock.now() - begin);
  fmt::print("{}\n", to_summary(compiler, compiled, seconds));
  if (command.json) LOCKSTEP_TRY_VOID(write_text_file(*command.json, to_json(compiler, compiled, seconds)));
  return compiled;
}

}  // namespace

Result<void> compile(const CompileCommand& command) {
  LOCKSTEP_TRY(const std::vector<CompiledStep> compiled, compile_and_report(command));
  return judge(compiled);
}

Result<void> export_artifacts(const ExportCommand& command) {
  LOCKSTEP_TRY_VOID(make_folder(command.to, "--to"));
  LOCKSTEP_TRY(const std::vector<CompiledStep> compiled, compile_and_report(command.compile));
  LOCKSTEP_TRY_VOID(judge(compiled));
  std::vector<cache::ExportedArtifact> artifacts;
  for (const CompiledStep& step : compiled) artifacts.push_back({step.key, step.artifact.value().path});
  LOCKSTEP_TRY(const uint64_t copied, cache::export_artifacts(command.to, artifacts, build_id()));
  fmt::print("{} copied to {}; start with --artifacts {}\n", to_string(Bytes(static_cast<int64_t>(copied))),
             command.to.string(), command.to.string());
  return ok();
}

}  // namespace lockstep::launcher
