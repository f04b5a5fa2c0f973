#include "runtime/backends/neuron/launch/settings.h"

#include "runtime/backends/neuron/option_rows.h"

namespace lockstep::neuron {
namespace {

/// The runtime's own timeout of a step reports the reason; the watch of the process fires after it.
constexpr auto kAfterTheRuntime = std::chrono::seconds(5);

Duration seconds(double number) { return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(number)); }

}  // namespace

Target target_of(const device::OptionValues& values) {
  return target_from_name(device::OptionReader(option_rows(), values).text("neuron-target")).value();
}

Result<CompilerOptions> compiler_options(const device::OptionValues& values, const std::optional<std::string>& path) {
  const device::OptionReader options(option_rows(), values);
  CompilerOptions compiler{
      .program = options.text("neuron-cc"), .inheritance = process::Inheritance::kAll, .target = target_of(values)};
  if (path) compiler.environment["PATH"] = *path;
  LOCKSTEP_TRY(compiler.prefill_flags, split_flags(options.text("neuron-cc-flags-prefill")));
  LOCKSTEP_TRY(compiler.decode_flags, split_flags(options.text("neuron-cc-flags-decode")));
  compiler.deadline = seconds(options.number("neuron-compile-deadline-s"));
  LOCKSTEP_TRY_VOID(compiler.validate());
  return compiler;
}

Result<Options> backend_options(const device::RankSite& site, const device::OptionValues& values) {
  const device::OptionReader reader(option_rows(), values);
  Options options;
  LOCKSTEP_TRY(options.compiler, compiler_options(values, site.environment("PATH")));
  options.runtime = reader.text("neuron-runtime");
  options.load_deadline = seconds(reader.number("neuron-load-deadline-s"));
  options.step_deadline = site.step_deadline + kAfterTheRuntime;
  options.abort = site.abort;
  options.on_stuck = site.on_stuck;
  options.log = site.log;
  return options;
}

}  // namespace lockstep::neuron
