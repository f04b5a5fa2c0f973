#include "runtime/backends/cuda/backend.h"

#include <fmt/format.h>
#include <algorithm>

#include "runtime/backends/cuda/executable.h"
#include "runtime/backends/cuda/kernel_set.h"
#include "runtime/backends/cuda/limits_probe.h"
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
  explicit Backend(const Options& options)
      : hosts_(options.hosts), connect_(options.connect), exchange_library_(options.exchange_library) {}

  static Result<std::unique_ptr<Backend>> start(const Options& options) {
    auto backend = std::make_unique<Backend>(options);
    const auto gpu = std::make_shared<Gpu>();
    LOCKSTEP_TRY(gpu->driver, cu::Driver::open(options.driver));
    LOCKSTEP_TRY(gpu->context, cu::Context::create(*gpu->driver, options.ordinal));
    backend->gpu_ = gpu;
    LOCKSTEP_TRY(backend->stream_, cu::Stream::create(*gpu->context));
    LOCKSTEP_TRY(backend->kernels_, KernelSet::load(*gpu->context));
    if (options.steps.uses_blas) {
      LOCKSTEP_TRY(backend->blas_, cu::BlasLibrary::open(*gpu->context, options.blas));
    }
    backend->device_ = {.context = gpu->context.get(),
                        .context_owner = gpu,
                        .stream = backend->stream_.get(),
                        .kernels = backend->kernels_.get(),
                        .blas = backend->blas_.get(),
                        .limit = {&backend->clock_, options.deadline, options.abort},
                        .most_shared_ranks = options.ranks_of_device,
                        .host_threads = std::max(1, options.host_threads),
                        .early_launches = options.early_launches,
                        .options = options.steps};
    return backend;
  }

  std::string_view name() const override { return "cuda"; }
  device::Capabilities capabilities() const override { return cuda::capabilities(device_.options); }

  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    LOCKSTEP_TRY(std::unique_ptr<device::Store> store, Store::create(steps, device_));
    return store;
  }

  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store& store,
                                                      const device::CompileOptions& options) override {
    auto* own = dynamic_cast<Store*>(&store);
    LOCKSTEP_CHECK(own != nullptr);
    if (step.own.ranks > 1) LOCKSTEP_TRY_VOID(know_hosts(step.own, options.communicator));
    LOCKSTEP_TRY(std::unique_ptr<device::Executable> executable,
                 Executable::compile(step.own, *own, device_, options.communicator));
    return executable;
  }

  Result<std::unique_ptr<device::LimitsProbe>> make_limits_probe(const device::ProbedWork& work) override {
    return cuda::make_limits_probe(device_, work);
  }

 private:
  /// Connects the ranks' GPUs before the first graph of a group on several hosts. @collective @blocking
  Result<void> know_hosts(const graph::Graph& graph, device::Communicator* communicator);

  device::Hosts hosts_;
  const device::ConnectDevices connect_;
  const std::filesystem::path exchange_library_;
  SteadyClock clock_;
  std::shared_ptr<const Gpu> gpu_;
  std::unique_ptr<cu::Stream> stream_;
  std::unique_ptr<KernelSet> kernels_;
  std::unique_ptr<cu::BlasLibrary> blas_;
  std::unique_ptr<device::DeviceExchange> exchange_;
  bool is_connected_ = false;
  RankDevice device_;
};

Result<void> Backend::know_hosts(const graph::Graph& graph, device::Communicator* communicator) {
  if (hosts_.count() == 0) hosts_ = device::one_host(graph.ranks);
  LOCKSTEP_CHECK(hosts_.ranks() == graph.ranks, hosts_.ranks(), graph.ranks);
  device_.hosts = &hosts_;
  if (hosts_.count() == 1 || is_connected_ || communicator == nullptr) return ok();
  if (!connect_) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/backends/cuda] rank {}: cannot connect GPUs: found ranks on {} hosts and no "
                             "exchange between them, expected ranks on one host; start them there",
                             graph.rank, hosts_.count())};
  }
  const int local = hosts_.local_of[static_cast<size_t>(graph.rank)];
  std::vector<int> members;
  if (local < hosts_.rails()) members = hosts_.rail(local);
  LOCKSTEP_TRY_VOID(gpu_->context->make_current());
  LOCKSTEP_TRY(exchange_, connect_({exchange_library_, *communicator, std::move(members)}));
  is_connected_ = true;
  device_.exchange = exchange_.get();
  return ok();
}

}  // namespace

device::Capabilities capabilities(const StepOptions& steps) {
  return {.dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16},
          .rows_of_one_slot = false,
          .bounded_attention = true,
          .invariant_sums = !steps.uses_blas,
          .recurrences = true,
          .coded_weights = device::CodedWeights::kAll,
          .rounded_experts = true,
          .coded_caches = true,
          .latent_attention = true};
}

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options) {
  LOCKSTEP_TRY(std::unique_ptr<device::Backend> backend, Backend::start(options));
  return backend;
}

}  // namespace lockstep::cuda
