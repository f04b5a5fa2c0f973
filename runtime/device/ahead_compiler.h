// Compilation ahead of time: every step of a model, compiled on a machine that needs no device.
//
//   steps ── AheadCompiler::open ──► AheadCompilation ── compile(i) ──► cache, or compiler ──► what became of step i
//                                                     └─ export_to ──► a folder that runs read
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

/// What a compilation may use. Everything is borrowed and outlives it.
struct AheadSite {
  std::string build;                                                        // which build of the program this is
  std::function<std::optional<std::string>(std::string_view)> environment;  // a variable of this process
  const Log* log = nullptr;                                                 // may be null
  const AbortFlag* abort = nullptr;                                         // ends waits for other makers; may be null
  const StopEvent* stop = nullptr;                                          // ends compilers that run; may be null
};

/// Who compiles, and for what.
struct CompilerFacts {
  std::string program;  // as it was named
  std::string version;  // empty: unknown
  std::string target;   // "trn1"
};

/// What the compiler is given of one step.
struct StepModule {
  std::string file;  // the name that suits it: "decode.hlo.pb"
  std::vector<std::byte> bytes;
};

/// What became of one step.
struct CompiledStep {
  std::string name;
  ArtifactKey key;
  Bytes module;  // size of what the compiler is given
  Result<Artifact> artifact;
  Bytes size;  // of the artifact
  double seconds = 0.0;

  /// "compiled", "cached" or "failed".
  std::string_view status() const {
    if (!artifact.has_value()) return "failed";
    return artifact.value().was_made ? "compiled" : "cached";
  }
};

/// The steps of one model, ready to be compiled.
class AheadCompilation {
 public:
  virtual ~AheadCompilation() = default;

  virtual CompilerFacts facts() const = 0;
  /// What a run of these steps will have against it; they are compiled all the same.
  virtual std::vector<std::string> warnings() const = 0;

  virtual size_t steps() const = 0;
  virtual StepModule module(size_t step) const = 0;
  /// Finds or makes the artifact of one step; with `kCancelled` once the site's stop is raised. Thread-safe. @blocking
  virtual CompiledStep compile(size_t step) const = 0;

  /// Copies artifacts into `folder`, for runs with it; returns the bytes that were copied. @blocking
  virtual Result<Bytes> export_to(const std::filesystem::path& folder,
                                  std::span<const CompiledStep> compiled) const = 0;
};

class AheadCompiler {
 public:
  virtual ~AheadCompiler() = default;

  /// Of `steps`, each with the graphs of all ranks. Fails as `check_options`, and where a graph cannot be compiled.
  /// @blocking
  virtual Result<std::unique_ptr<AheadCompilation>> open(std::span<const StepGraph> steps, const AheadSite& site,
                                                         const OptionValues& values) const = 0;
};

}  // namespace lockstep::device
