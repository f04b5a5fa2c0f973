#include "runtime/backends/neuron/compiler/compiler.h"

#include <utility>

namespace lockstep::neuron {

std::string_view to_string(Target target) {
  switch (target) {
    case Target::kTrn1: return "trn1";
    case Target::kTrn2: return "trn2";
    case Target::kInf2: return "inf2";
  }
  return "";
}

std::optional<Target> target_from_name(std::string_view name) {
  for (const Target target : {Target::kTrn1, Target::kTrn2, Target::kInf2}) {
    if (to_string(target) == name) return target;
  }
  return std::nullopt;
}

Phase phase_of(std::string_view graph_name) {
  return graph_name.starts_with("prefill") ? Phase::kPrefill : Phase::kDecode;
}

Result<void> CompilerOptions::validate() const { return ok(); }

int CompilerOptions::cores_per_logical_core() const { return target == Target::kTrn2 ? 2 : 1; }

Result<std::vector<std::string>> split_flags(std::string_view text) {
  return std::vector<std::string>{std::string(text)};
}

std::vector<std::string> compiler_flags(const CompilerOptions& options, Phase phase) {
  return phase == Phase::kPrefill ? options.prefill_flags : options.decode_flags;
}

Compiler::Compiler(CompilerOptions options, std::string version)
    : options_(std::move(options)), version_(std::move(version)) {}

Result<Compiler> Compiler::open(CompilerOptions options) {
  LOCKSTEP_TRY_VOID(options.validate());
  return Compiler(std::move(options), "");
}

device::ArtifactKey Compiler::key(const LoweredStep& step) const {
  return {.backend = "neuron", .step = step.module.name, .fields = {}};
}

Result<device::Artifact> Compiler::compile(const LoweredStep& step, device::ArtifactCache& cache) const {
  return cache.get(key(step), [](const device::ArtifactWorkspace&) -> Result<void> {
    return Error{ErrorKind::kUnavailable, "[runtime/backends/neuron] cannot compile: no compiler is wired in yet"};
  });
}

}  // namespace lockstep::neuron
