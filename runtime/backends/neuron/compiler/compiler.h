// Compiles a lowered step with neuronx-cc as a child process, behind a cache.
//
//   LoweredStep ──key──► ArtifactCache ──found──────────────────────────────────────────► NEFF
//                              └──miss──► neuronx-cc compile MODULE.pb --output X.neff ────┘
//
// The caller chooses the program and its environment; nothing here reads settings of the machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/backends/neuron/lowering.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "runtime/device/artifact_cache.h"
#include "runtime/process/child_process.h"

namespace lockstep::neuron {

/// The devices that the artifact is for.
enum class Target : uint8_t { kTrn1, kTrn2, kInf2 };
/// "trn1", "trn2", "inf2".
std::string_view to_string(Target target);
std::optional<Target> target_from_name(std::string_view name);

/// Prefill is compiled quickly, decode (and verification) for speed, with separate flags.
enum class Phase : uint8_t { kPrefill, kDecode };
/// The phase of a graph's name: prefill for "prefill" and "prefill_512", decode for all others.
Phase phase_of(std::string_view graph_name);

struct CompilerOptions {
  std::filesystem::path program = "neuronx-cc";  // a path, or a name to find in PATH of `environment`
  process::EnvironmentMap environment;           // of the program, complete unless it is inherited
  process::Inheritance inheritance = process::Inheritance::kNone;
  Target target = Target::kTrn1;
  std::vector<std::string> prefill_flags, decode_flags;  // replace defaults with the same name, or are added
  Duration deadline = std::chrono::hours(2);             // of one graph
  const process::ChildStop* stop = nullptr;              // when raised, ends running compilers; outlives the compiler

  /// Fails with `kInvalidArgument` naming the option: a deadline that is not positive, a reserved flag (--target,
  /// --framework, --output), phases with different sizes of a logical core.
  Result<void> validate() const;

  /// Physical cores per logical core (LNC) in compiled modules: 1, or 2 on trn2 unless a flag says 1. The runtime's
  /// NEURON_LOGICAL_NC_CONFIG must be equal. Requires valid options.
  int cores_per_logical_core() const;
};

/// The compiler's input: an HloModuleProto.
std::vector<std::byte> module_bytes(const LoweredStep& step);

/// Splits an option's text into words at blanks; quotes ('…' or "…") protect blanks, a backslash the next character.
/// Fails with `kInvalidArgument` for an unclosed quote.
Result<std::vector<std::string>> split_flags(std::string_view text);

/// The flags of one phase, defaults and options, without the arguments that differ between calls.
std::vector<std::string> compiler_flags(const CompilerOptions& options, Phase phase);

class Compiler {
 public:
  /// Queries the program's version once. If the program does not exist, the version is unknown (empty): artifacts of
  /// any version match, and a compilation fails. Fails as `validate` does, and with `kFailedPrecondition` for a program
  /// that does not report its version. @blocking
  static Result<Compiler> open(CompilerOptions options);

  const CompilerOptions& options() const { return options_; }
  /// "2.21.18209.0"; empty: unknown.
  const std::string& version() const { return version_; }

  /// Everything that the artifact of `step` depends on: module, signature, compiler, flags, target, ranks. Pure.
  device::ArtifactKey key(const LoweredStep& step) const;

  /// The NEFF of `step`, compiled unless `cache` has it. Fails as the cache does; with `kUnavailable` without a
  /// compiler; with `kDeadlineExceeded` at the deadline, `kCancelled` when `stop` was raised; with `kUnsupported`,
  /// `kResourceExhausted` or `kFailedPrecondition` when the compiler rejected the module, ran out of memory, or failed
  /// otherwise. The message has the end of the log and, for known failures, advice. Thread-safe. @blocking
  Result<device::Artifact> compile(const LoweredStep& step, device::ArtifactCache& cache) const;

 private:
  Compiler(CompilerOptions options, std::string version);

  CompilerOptions options_;
  std::string version_;
};

}  // namespace lockstep::neuron
