#include "runtime/backends/cuda/limits_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/backends/cuda/kernel_set.h"
#include "runtime/backends/cuda/kernels/probe_parameters.h"

namespace lockstep::cuda {
namespace {

constexpr int64_t kUsualBytes = int64_t{4} << 30;
constexpr int64_t kLeastCaches = 4;  // that the memory fills
constexpr int kMostLoads = 16;
constexpr int kBlocksOfReaders[] = {2, 4, 8};  // of a multiprocessor
constexpr int kBlocksOfMultipliers[] = {1, 2, 4};
constexpr int kMostBlocksOfMultiprocessor = 8;
constexpr int kWarps = kProbeThreads / 32;
/// A pass of products takes at least this long, and no sum leaves what f32 holds exactly.
constexpr Duration kLongEnough = std::chrono::milliseconds(2);
constexpr int32_t kMostTimes = 65536;

/// A kernel with the number of its blocks.
struct ProbeKernel {
  std::string kernel;
  int blocks = 1;
  int64_t shared_bytes = 0;
  int loads = 0;       // of readers: 16 bytes each that a thread has under way
  size_t product = 0;  // of multipliers
};

/// A way to multiply.
struct Product {
  std::string_view kernel, words;
  double operations = 0;                 // of a warp, each time
  int32_t times = 1;                     // that a pass repeats it
  std::vector<uint32_t> sums_once = {};  // of each warp of a block that makes it once
};

std::string_view precision_of(const device::ProbedWork& work) {
  if (work.has_int8_weights) return "int8";
  return work.dtype == DType::kBFloat16 ? "bfloat16" : work.dtype == DType::kFloat16 ? "float16" : "float32";
}

std::vector<Product> products_of(const device::ProbedWork& work) {
  constexpr double kTiles = 2.0 * 16 * 8 * 16 * kProbeTiles, kLanes = 2.0 * 32 * kProbeLanes;
  constexpr double kGroups = 2.0 * 64 * 128 * 16 / 4 * kProbeGroups;
  if (work.has_int8_weights) return {{"probe_multiply_int8", "dots of bytes", 4 * kLanes}};
  if (work.dtype == DType::kFloat32) return {{"probe_multiply_f32", "multiply-adds", kLanes}};
  const bool is_half = work.dtype == DType::kFloat16;
  return {{is_half ? "probe_multiply_f16" : "probe_multiply_bf16", "mma", kTiles},
          {is_half ? "probe_multiply_groups_f16" : "probe_multiply_groups_bf16", "wgmma", kGroups}};
}

/// The sum of the first `count` words, as they are filled.
uint32_t sum_of_words(uint64_t count) {
  const uint64_t pairs = count % 2 == 0 ? count / 2 * (count - 1) : (count - 1) / 2 * count;
  return static_cast<uint32_t>(pairs) * kProbeFactor + static_cast<uint32_t>(count) * kProbeOffset;
}

Result<int64_t> bytes_to_read(const cu::Context& context, const device::ProbedWork& work) {
  constexpr int64_t kUnit = probe_tile_bytes(kMostLoads);
  if (work.bytes) return std::max(kUnit, work.bytes->value / kUnit * kUnit);
  LOCKSTEP_TRY(const Bytes free, context.free_memory());
  const int64_t wanted = std::min(kUsualBytes, free.value / 4) / kUnit * kUnit;
  if (wanted >= std::max(kUnit, kLeastCaches * context.device().l2_bytes)) return wanted;
  return Error{ErrorKind::kResourceExhausted,
               fmt::format("[runtime/backends/cuda] cannot measure GPU {}: found {} of free memory, expected {} times "
                           "its cache of {} in a quarter of it; lower --max-seq-len, or give --probe-mib",
                           context.device().ordinal, to_string(free), kLeastCaches,
                           to_string(Bytes(context.device().l2_bytes)))};
}

class LimitsProbe final : public device::LimitsProbe {
 public:
  static Result<std::unique_ptr<LimitsProbe>> create(const RankDevice& device, const device::ProbedWork& work) {
    std::unique_ptr<LimitsProbe> probe(new LimitsProbe(device, work));
    LOCKSTEP_TRY_VOID(device.context->make_current());
    LOCKSTEP_TRY_VOID(probe->make_memory(work));
    probe->list_kernels();
    LOCKSTEP_TRY_VOID(probe->fill());
    LOCKSTEP_TRY_VOID(probe->choose_times());
    return probe;
  }

  std::span<const std::string> readers() const override { return reader_names_; }
  std::span<const std::string> multipliers() const override { return multiplier_names_; }
  std::string_view precision() const override { return precision_; }

  Result<device::ProbePass> read(size_t reader) override {
    const ProbeKernel& kernel = readers_.at(reader);
    const int64_t bytes = memory_.bytes().value;
    const ProbeReadParameters parameters{.words = pointer(memory_.address()),
                                         .sums = static_cast<uint32_t*>(pointer(sums_.address())),
                                         .tiles = bytes / probe_tile_bytes(kernel.loads)};
    LOCKSTEP_TRY(const Duration time, run(kernel, &parameters));
    uint32_t sum = 0;
    for (const uint32_t each : sums_of(kernel)) sum += each;
    const uint32_t expected = sum_of_words(static_cast<uint64_t>(bytes) / sizeof(uint32_t));
    if (sum != expected) return wrong(kernel, sum, expected);
    return device::ProbePass{time, static_cast<double>(bytes)};
  }

  Result<device::ProbePass> multiply(size_t multiplier) override { return multiply(multipliers_.at(multiplier)); }

 private:
  LimitsProbe(const RankDevice& device, const device::ProbedWork& work)
      : device_(device), precision_(precision_of(work)), products_(products_of(work)) {}

  static void* pointer(cu::DeviceAddress address) { return reinterpret_cast<void*>(address.value); }

  Result<void> make_memory(const device::ProbedWork& work) {
    const cu::Context& context = *device_.context;
    LOCKSTEP_TRY(const int64_t bytes, bytes_to_read(context, work));
    LOCKSTEP_TRY(memory_, cu::DeviceMemory::create(context, Bytes(bytes), "the read probe"));
    const int64_t most_warps = int64_t{context.device().multiprocessors} * kMostBlocksOfMultiprocessor * kWarps;
    const Bytes sum_bytes(most_warps * static_cast<int64_t>(sizeof(uint32_t)));
    LOCKSTEP_TRY(sums_, cu::DeviceMemory::create(context, sum_bytes, "the probes' sums"));
    LOCKSTEP_TRY(host_sums_, cu::PinnedMemory::create(context, sum_bytes, "the probes' sums"));
    LOCKSTEP_TRY(watch_, cu::Stopwatch::create(context));
    return ok();
  }

  void list_kernels() {
    const int multiprocessors = device_.context->device().multiprocessors;
    for (const int loads : {4, 8, kMostLoads}) {
      for (const int blocks : kBlocksOfReaders) {
        readers_.push_back(
            {.kernel = fmt::format("probe_read_{}", loads), .blocks = blocks * multiprocessors, .loads = loads});
        reader_names_.push_back(fmt::format("GPU, {} x 16 bytes a thread, {} blocks a multiprocessor", loads, blocks));
      }
    }
    for (size_t product = 0; product < products_.size(); ++product) {
      const std::string kernel(products_[product].kernel);
      for (const int blocks : kBlocksOfMultipliers) {
        multipliers_.push_back({.kernel = kernel,
                                .blocks = blocks * multiprocessors,
                                .shared_bytes = kernel_row(kernel).shared_bytes,
                                .product = product});
        multiplier_names_.push_back(
            fmt::format("GPU, {} of {}, {} blocks a multiprocessor", products_[product].words, precision_, blocks));
      }
    }
  }

  Result<void> fill() {
    const ProbeFillParameters parameters{.words = pointer(memory_.address()), .fours = memory_.bytes().value / 16};
    const cu::LaunchShape shape{.blocks = readers_.front().blocks, .threads = kProbeThreads};
    LOCKSTEP_TRY_VOID(cu::launch(*device_.stream, device_.kernels->kernel("probe_fill"), shape, &parameters));
    return device_.stream->wait(device_.limit);
  }

  /// Repeats products until a pass is long enough.
  Result<void> choose_times() {
    for (const ProbeKernel& kernel : multipliers_) {
      Product& product = products_[kernel.product];
      while (true) {
        LOCKSTEP_TRY(const device::ProbePass pass, multiply(kernel));
        if (pass.time >= kLongEnough || product.times >= kMostTimes) break;
        product.times *= 4;
      }
    }
    return ok();
  }

  Result<device::ProbePass> multiply(const ProbeKernel& kernel) {
    Product& product = products_[kernel.product];
    const ProbeMultiplyParameters parameters{.sums = static_cast<uint32_t*>(pointer(sums_.address())),
                                             .times = product.times};
    LOCKSTEP_TRY(const Duration time, run(kernel, &parameters));
    const std::span<const uint32_t> sums = sums_of(kernel);
    if (product.sums_once.empty()) product.sums_once.assign(sums.begin(), sums.begin() + kWarps);
    for (size_t warp = 0; warp < sums.size(); ++warp) {
      const uint32_t expected = static_cast<uint32_t>(product.times) * product.sums_once[warp % kWarps];
      if (sums[warp] != expected) return wrong(kernel, sums[warp], expected);
    }
    return device::ProbePass{time, product.operations * product.times * static_cast<double>(sums.size())};
  }

  /// One launch between two events; its sums are on the host afterwards.
  Result<Duration> run(const ProbeKernel& kernel, const void* parameters) {
    LOCKSTEP_TRY_VOID(device_.context->make_current());
    cu::Stream& stream = *device_.stream;
    const cu::LaunchShape shape{.blocks = kernel.blocks, .threads = kProbeThreads, .shared_bytes = kernel.shared_bytes};
    LOCKSTEP_TRY_VOID(watch_->begin(stream));
    LOCKSTEP_TRY_VOID(cu::launch(stream, device_.kernels->kernel(kernel.kernel), shape, parameters));
    LOCKSTEP_TRY_VOID(watch_->end(stream));
    const auto bytes = static_cast<size_t>(kernel.blocks) * kWarps * sizeof(uint32_t);
    LOCKSTEP_TRY_VOID(stream.copy_to_host(host_sums_.host().first(bytes), sums_.address()));
    LOCKSTEP_TRY_VOID(stream.wait(device_.limit));
    return watch_->elapsed();
  }

  /// Of each warp of the last launch.
  std::span<const uint32_t> sums_of(const ProbeKernel& kernel) const {
    return {reinterpret_cast<const uint32_t*>(host_sums_.host().data()), static_cast<size_t>(kernel.blocks) * kWarps};
  }

  static Error wrong(const ProbeKernel& kernel, uint32_t found, uint32_t expected) {
    return {ErrorKind::kInternal,
            fmt::format("[runtime/backends/cuda] the probe {} left something out: found a sum of {}, expected {}; "
                        "report it",
                        kernel.kernel, found, expected)};
  }

  const RankDevice device_;
  const std::string_view precision_;
  std::vector<Product> products_;
  cu::DeviceMemory memory_, sums_;
  cu::PinnedMemory host_sums_;
  std::unique_ptr<cu::Stopwatch> watch_;
  std::vector<ProbeKernel> readers_, multipliers_;
  std::vector<std::string> reader_names_, multiplier_names_;
};

}  // namespace

Result<std::unique_ptr<device::LimitsProbe>> make_limits_probe(const RankDevice& device,
                                                               const device::ProbedWork& work) {
  LOCKSTEP_TRY(std::unique_ptr<device::LimitsProbe> probe, LimitsProbe::create(device, work));
  return probe;
}

}  // namespace lockstep::cuda
