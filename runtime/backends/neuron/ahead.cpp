#include "runtime/backends/neuron/ahead.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/backends/neuron/launch/instances.h"
#include "runtime/backends/neuron/launch/settings.h"
#include "runtime/backends/neuron/option_rows.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/user_cache.h"

namespace lockstep::neuron {
namespace {

/// The size of a file; 0 when it does not exist.
Bytes size_of_file(const std::filesystem::path& path) {
  std::error_code failed;
  const uintmax_t size = std::filesystem::file_size(path, failed);
  return Bytes(failed ? 0 : static_cast<int64_t>(size));
}

class Compilation final : public device::AheadCompilation {
 public:
  explicit Compilation(AheadParts parts) : parts_(std::move(parts)) {}

  device::CompilerFacts facts() const override {
    const Compiler& compiler = parts_.compiler;
    return {compiler.options().program.string(), compiler.version(), std::string(to_string(compiler.options().target))};
  }
  std::vector<std::string> warnings() const override { return parts_.warnings; }
  size_t steps() const override { return parts_.steps.size(); }

  device::StepModule module(size_t step) const override {
    const LoweredStep& lowered = parts_.steps.at(step);
    return {lowered.module.name + ".hlo.pb", module_bytes(lowered)};
  }

  device::CompiledStep compile(size_t step) const override {
    const SteadyClock clock;
    const TimePoint begin = clock.now();
    const LoweredStep& lowered = parts_.steps.at(step);
    device::CompiledStep compiled{
        .name = lowered.module.name,
        .key = parts_.compiler.key(lowered),
        .module = Bytes(static_cast<int64_t>(module_bytes(lowered).size())),
        .artifact = Error{ErrorKind::kCancelled, "[runtime/backends/neuron] compilation was interrupted"}};
    const process::ChildStop* stop = parts_.compiler.options().stop;
    if (stop == nullptr || !stop->is_raised()) compiled.artifact = parts_.compiler.compile(lowered, *parts_.cache);
    if (compiled.artifact.has_value()) compiled.size = size_of_file(compiled.artifact.value().path);
    compiled.seconds = to_seconds(clock.now() - begin);
    return compiled;
  }

  Result<Bytes> export_to(const std::filesystem::path& folder,
                          std::span<const device::CompiledStep> compiled) const override {
    std::vector<cache::ExportedArtifact> artifacts;
    for (const device::CompiledStep& step : compiled) artifacts.push_back({step.key, step.artifact.value().path});
    LOCKSTEP_TRY(const uint64_t copied, cache::export_artifacts(folder, artifacts, parts_.build));
    return Bytes(static_cast<int64_t>(copied));
  }

 private:
  const AheadParts parts_;
};

}  // namespace

std::unique_ptr<device::AheadCompilation> make_compilation(AheadParts parts) {
  return std::make_unique<Compilation>(std::move(parts));
}

Result<std::unique_ptr<device::AheadCompilation>> open_compilation(std::span<const device::StepGraph> steps,
                                                                   const device::AheadSite& site,
                                                                   const device::OptionValues& values) {
  std::vector<std::string> warnings;
  const int ranks = steps.empty() ? 1 : steps.front().own.ranks;
  if (const std::string why_not = why_not_degree(family_of(target_of(values)), ranks); !why_not.empty()) {
    warnings.push_back(fmt::format("--tp: {}; compiling all the same, a run needs --no-strict", why_not));
  }
  std::vector<LoweredStep> lowered;
  for (const device::StepGraph& step : steps) {
    LOCKSTEP_TRY(lowered.emplace_back(), lower(step.of_all_ranks));
  }
  LOCKSTEP_TRY(CompilerOptions options, compiler_options(values, site.environment("PATH")));
  options.stop = site.stop;
  LOCKSTEP_TRY(Compiler compiler, Compiler::open(std::move(options)));
  const cache::UserSite user{
      .build = site.build, .environment = site.environment, .log = site.log, .abort = site.abort};
  LOCKSTEP_TRY(auto cache, cache::open_user_cache({option_rows(), values}, user));
  return make_compilation({.steps = std::move(lowered),
                           .compiler = std::move(compiler),
                           .cache = std::move(cache),
                           .build = site.build,
                           .warnings = std::move(warnings)});
}

}  // namespace lockstep::neuron
