// Compiles a lowered step: neuronx-cc as a child process, behind a cache, so that it happens once.
//
//   LoweredStep ──key──► ArtifactCache ──found──────────────────────────────────────────► NEFF
//                              └──miss──► neuronx-cc compile MODULE.pb --output X.neff ────┘
//
// Which program runs, with which environment, is the caller's to say; nothing here reads the machine's settings.
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

/// Which devices the artifact is for.
enum class Target : uint8_t { kTrn1, kTrn2, kInf2 };
/// "trn1", "trn2", "inf2".
std::string_view to_string(Target target);
std::optional<Target> target_from_name(std::string_view name);

/// Prefill is compiled quickly, decode (and verification) well: they have flags of their own.
enum class Phase : uint8_t { kPrefill, kDecode };
/// Of a graph by its name: prefill for "prefill" and "prefill_512", decode for all others.
Phase phase_of(std::string_view graph_name);

struct CompilerOptions {
  std::filesystem::path program = "neuronx-cc";  // a path, or a name that is looked for in PATH of `environment`
  process::EnvironmentMap environment;           // of the program, all of it, unless ours is inherited
  process::Inheritance inheritance = process::Inheritance::kNone;
  Target target = Target::kTrn1;
  std::vector<std::string> prefill_flags, decode_flags;  // replace the default of the same name, or are added
  Duration deadline = std::chrono::hours(2);             // of one graph
  const process::ChildStop* stop = nullptr;              // raised, it ends what runs; outlives the compiler

  /// Fails with `kInvalidArgument` naming the option: a deadline that is not positive, a flag that this program itself
  /// gives (--target, --framework, --output), phases that disagree about the size of a logical core.
  Result<void> validate() const;

  /// Physical cores that make one logical core (LNC) in what is compiled: 1, or 2 on trn2 unless a flag says 1. The
  /// runtime's NEURON_LOGICAL_NC_CONFIG must be the same. Of valid options.
  int cores_per_logical_core() const;
};

/// What the compiler is given: an HloModuleProto.
std::vector<std::byte> module_bytes(const LoweredStep& step);

/// Cuts what a user wrote as one option into words at its blanks; quotes ('…' or "…") keep blanks, a backslash the next
/// character. Fails with `kInvalidArgument` for a quote that is not closed.
Result<std::vector<std::string>> split_flags(std::string_view text);

/// The flags of one phase, defaults and options together, without what differs from call to call.
std::vector<std::string> compiler_flags(const CompilerOptions& options, Phase phase);

class Compiler {
 public:
  /// Asks the program for its version, once. Where there is no such program the version is unknown (empty): artifacts
  /// of any version serve, and a compilation fails. Fails as `validate`, and with `kFailedPrecondition` for a program
  /// that does not say its version. @blocking
  static Result<Compiler> open(CompilerOptions options);

  const CompilerOptions& options() const { return options_; }
  /// "2.21.18209.0"; empty: unknown.
  const std::string& version() const { return version_; }

  /// All that the artifact of `step` depends on: module, signature, compiler, flags, target, ranks. Pure.
  device::ArtifactKey key(const LoweredStep& step) const;

  /// The NEFF of `step`, compiled unless `cache` has it. Fails as the cache does; with `kUnavailable` where there is no
  /// compiler; with `kDeadlineExceeded` when it took too long and was ended, `kCancelled` when `stop` was raised; with
  /// `kUnsupported`, `kResourceExhausted` or `kFailedPrecondition` when it refused the module, the memory, or anything
  /// else: the message has the end of its log and, for known failures, what to do. Thread-safe. @blocking
  Result<device::Artifact> compile(const LoweredStep& step, device::ArtifactCache& cache) const;

 private:
  Compiler(CompilerOptions options, std::string version);

  CompilerOptions options_;
  std::string version_;
};

}  // namespace lockstep::neuron
