// Ahead-of-time compilation of every step of a model, on a machine without the device.
//
//   steps ── AheadCompiler::open ──► AheadCompilation ── compile(i) ──► cache, or compiler ──► result of step i
//                                                     └─ export_to ──► a folder for later runs
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/abort_flag.h"
#include "runtime/core/ids.h"
#include "runtime/core/log.h"
#include "runtime/core/result.h"
#include "runtime/core/stop_event.h"
#include "runtime/device/artifact_cache.h"
#include "runtime/device/backend.h"
#include "runtime/device/option_row.h"

namespace lockstep::device {

/// The environment of a compilation. Everything is borrowed and outlives it.
struct AheadSite {
  std::string build;                                                        // identifies the build of the program
  std::function<std::optional<std::string>(std::string_view)> environment;  // reads a variable of this process
  const Log* log = nullptr;                                                 // may be null
  const AbortFlag* abort = nullptr;                                         // ends waits for other makers; may be null
  const StopEvent* stop = nullptr;                                          // ends running compilers; may be null
};

/// The compiler and its target.
struct CompilerFacts {
  std::string program;  // as named by the user
  std::string version;  // empty: unknown
  std::string target;   // "trn1"
};

/// The compiler's input for one step.
struct StepModule {
  std::string file;  // a suitable file name: "decode.hlo.pb"
  std::vector<std::byte> bytes;
};

/// The result of compiling one step.
struct CompiledStep {
  std::string name;
  ArtifactKey key;
  Bytes module;  // size of the compiler's input
  Result<Artifact> artifact;
  Bytes size;  // of the artifact
  double seconds = 0.0;

  /// "compiled", "cached" or "failed".
  std::string_view status() const {
    if (!artifact.has_value()) return "failed";
    return artifact.value().was_made ? "compiled" : "cached";
  }
};

/// The steps of one model, ready for compilation.
class AheadCompilation {
 public:
  virtual ~AheadCompilation() = default;

  virtual CompilerFacts facts() const = 0;
  /// Reasons why a run of these steps may fail; compilation continues regardless.
  virtual std::vector<std::string> warnings() const = 0;

  virtual size_t steps() const = 0;
  virtual StepModule module(size_t step) const = 0;
  /// Finds or makes the artifact of one step; fails with `kCancelled` once the site's stop is raised. Thread-safe.
  /// @blocking
  virtual CompiledStep compile(size_t step) const = 0;

  /// Copies artifacts into `folder` for later runs; returns the number of bytes copied. @blocking
  virtual Result<Bytes> export_to(const std::filesystem::path& folder,
                                  std::span<const CompiledStep> compiled) const = 0;
};

class AheadCompiler {
 public:
  virtual ~AheadCompiler() = default;

  /// Opens `steps`, each with the graphs of all ranks. Fails as `check_options` does, or if a graph cannot be compiled.
  /// @blocking
  virtual Result<std::unique_ptr<AheadCompilation>> open(std::span<const StepGraph> steps, const AheadSite& site,
                                                         const OptionValues& values) const = 0;
};

}  // namespace lockstep::device
