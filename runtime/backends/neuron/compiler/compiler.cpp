#include "runtime/backends/neuron/compiler/compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "runtime/backends/neuron/compiler/neuronx_cc.h"
#include "runtime/backends/neuron/hlo/wire.h"
#include "runtime/core/digest.h"

namespace lockstep::neuron {
namespace {

/// Joins words with blanks. A word with blanks is quoted, so that different lists give different texts.
std::string joined(std::vector<std::string> words) {
  for (std::string& word : words) {
    if (word.find_first_of(" '") != std::string::npos) word = fmt::format("'{}'", word);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace

std::vector<std::byte> module_bytes(const LoweredStep& step) { return hlo::to_bytes(step.module); }

Compiler::Compiler(CompilerOptions options, std::string version)
    : options_(std::move(options)), version_(std::move(version)) {}

Result<Compiler> Compiler::open(CompilerOptions options) {
  LOCKSTEP_TRY_VOID(options.validate());
  LOCKSTEP_TRY(std::string version, ask_version(options));
  return Compiler(std::move(options), std::move(version));
}

device::ArtifactKey Compiler::key(const LoweredStep& step) const {
  const std::string& name = step.module.name;
  return {.backend = "neuron",
          .step = name,
          .fields = {{"module", sha256_hex(module_bytes(step))},
                     {"signature", sha256_hex(to_text(step.signature))},
                     {"compiler", version_},
                     {"flags", joined(compiler_flags(options_, phase_of(name)))},
                     {"target", std::string(to_string(options_.target))},
                     {"ranks", std::to_string(step.signature.ranks)}}};
}

Result<device::Artifact> Compiler::compile(const LoweredStep& step, device::ArtifactCache& cache) const {
  return cache.get(key(step), [&](const device::ArtifactWorkspace& workspace) {
    return run_compiler(options_, step.module.name, module_bytes(step), workspace);
  });
}

}  // namespace lockstep::neuron
