// The suite's list of backends for Neuron: the backend with the stand-ins of AWS's compiler and runtime. A process
// starts the runtime once, so all sessions share one backend.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/backends/neuron/neuron.h"
#include "runtime/cache/cache.h"
#include "tests/conformance/backend/backends.h"

namespace lockstep::conformance {
namespace {

/// A folder for compiled files, removed at the end of the process.
class CompiledModules {
 public:
  CompiledModules()
      : folder_(std::filesystem::temp_directory_path() / ("lockstep-neuron-suite-" + std::to_string(getpid()))),
        cache_(cache::make_cache({.folder = folder_}).value()) {}
  ~CompiledModules() {
    cache_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  device::ArtifactCache& cache() { return *cache_; }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<device::ArtifactCache> cache_;
};

device::Backend& shared_backend() {
  static CompiledModules modules;
  static const std::unique_ptr<device::Backend> kBackend = [] {
    neuron::Options options;
    options.compiler.program = LOCKSTEP_STAND_IN_CC;
    options.runtime = LOCKSTEP_STAND_IN_RUNTIME;
    return neuron::make_backend(options, modules.cache()).value();
  }();
  return *kBackend;
}

/// Passes everything on.
class SharedBackend final : public device::Backend {
 public:
  std::string_view name() const override { return shared_backend().name(); }
  device::Capabilities capabilities() const override { return shared_backend().capabilities(); }
  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    return shared_backend().make_store(steps);
  }
  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store& store,
                                                      const device::CompileOptions& options) override {
    return shared_backend().compile(step, store, options);
  }
};

}  // namespace

const std::vector<BackendUnderTest>& backends_under_test() {
  static const std::vector<BackendUnderTest> kBackends = {
      {.name = "Neuron",
       .make = [](int) -> Result<std::unique_ptr<device::Backend>> { return std::make_unique<SharedBackend>(); },
       .allocates_in_run = true,
       .rounds_weights_of_attention = {DType::kBFloat16}}};
  return kBackends;
}

}  // namespace lockstep::conformance
