#include "runtime/backends/cuda/backend.h"

#include "runtime/backends/cuda/executable.h"
#include "runtime/backends/cuda/kernel_set.h"
#include "runtime/core/check.h"
#include "runtime/cuda/driver.h"

namespace lockstep::cuda {
namespace {

class Backend final : public device::Backend {
 public:
  static Result<std::unique_ptr<Backend>> start(const Options& options) {
    auto backend = std::make_unique<Backend>();
    LOCKSTEP_TRY(backend->driver_, cu::Driver::open(options.driver));
    LOCKSTEP_TRY(backend->context_, cu::Context::create(*backend->driver_, options.ordinal));
    LOCKSTEP_TRY(backend->stream_, cu::Stream::create(*backend->context_));
    LOCKSTEP_TRY(backend->kernels_, KernelSet::load(*backend->context_));
    backend->device_ = {.context = backend->context_.get(),
                        .stream = backend->stream_.get(),
                        .kernels = backend->kernels_.get(),
                        .limit = {&backend->clock_, options.deadline, options.abort},
                        .most_shared_ranks = options.ranks_of_device,
                        .node = options.node};
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
  std::unique_ptr<cu::Driver> driver_;
  std::unique_ptr<cu::Context> context_;
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
