#include "runtime/backends/cuda/backend.h"

#include "runtime/backends/cuda/executable.h"
#include "runtime/backends/cuda/kernel_set.h"
#include "runtime/core/check.h"
#include "runtime/cuda/driver.h"

namespace lockstep::cuda {
namespace {

/// A GPU in use. The driver outlives the context.
struct Gpu {
  std::unique_ptr<cu::Driver> driver;
  std::unique_ptr<cu::Context> context;
};

class Backend final : public device::Backend {
 public:
  static Result<std::unique_ptr<Backend>> start(const Options& options) {
    auto backend = std::make_unique<Backend>();
    const auto gpu = std::make_shared<Gpu>();
    LOCKSTEP_TRY(gpu->driver, cu::Driver::open(options.driver));
    LOCKSTEP_TRY(gpu->context, cu::Context::create(*gpu->driver, options.ordinal));
    backend->gpu_ = gpu;
    LOCKSTEP_TRY(backend->stream_, cu::Stream::create(*gpu->context));
    LOCKSTEP_TRY(backend->kernels_, KernelSet::load(*gpu->context));
    backend->device_ = {.context = gpu->context.get(),
                        .context_owner = gpu,
                        .stream = backend->stream_.get(),
                        .kernels = backend->kernels_.get(),
                        .limit = {&backend->clock_, options.deadline, options.abort},
                        .most_shared_ranks = options.ranks_of_device,
                        .node = options.node,
                        .early_launches = options.early_launches};
    return backend;
  }

  std::string_view name() const override { return "cuda"; }
  device::Capabilities capabilities() const override { return cuda::capabilities(); }

  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    LOCKSTEP_TRY(std::unique_ptr<device::Store> store, Store::create(steps, device_));
    return store;
  }

  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store& store,
                                                      const device::CompileOptions& options) override {
    auto* own = dynamic_cast<Store*>(&store);
    LOCKSTEP_CHECK(own != nullptr);
    LOCKSTEP_TRY(std::unique_ptr<device::Executable> executable,
                 Executable::compile(step.own, *own, device_, options.communicator));
    return executable;
  }

 private:
  SteadyClock clock_;
  std::shared_ptr<const Gpu> gpu_;
  std::unique_ptr<cu::Stream> stream_;
  std::unique_ptr<KernelSet> kernels_;
  RankDevice device_;
};

}  // namespace

device::Capabilities capabilities() {
  return {.dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16},
          .rows_of_one_slot = false,
          .bounded_attention = true,
          .invariant_sums = true};
}

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options) {
  LOCKSTEP_TRY(std::unique_ptr<device::Backend> backend, Backend::start(options));
  return backend;
}

}  // namespace lockstep::cuda
