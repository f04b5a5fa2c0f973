#include "runtime/backends/cuda/gpu_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/core/check.h"

namespace lockstep::cuda {
namespace {

constexpr int kGpusOfHost = 8;
constexpr int kCapabilityOfImages = 90;

// Not published. A sum of a decode step over the memory of eight GPUs takes some 6 us, and one between hosts some 20.
constexpr double kLinkLatency = 2e-6;
constexpr double kNetworkLatency = 10e-6;

constexpr std::array kKinds = {
    GpuKind{"a100-40", "A100 SXM 40 GB", 40, 1.555, 312, 624, 19.5, 300, 25, 80, "NVIDIA A100 data sheet; DGX A100"},
    GpuKind{"a100-80", "A100 SXM 80 GB", 80, 2.039, 312, 624, 19.5, 300, 25, 80, "NVIDIA A100 data sheet; DGX A100"},
    GpuKind{"h100", "H100 SXM", 80, 3.35, 989.5, 1979, 67, 450, 50, 90, "NVIDIA H100 data sheet; DGX H100"},
    GpuKind{"h200", "H200 SXM", 141, 4.8, 989.5, 1979, 67, 450, 50, 90, "NVIDIA H200 data sheet; DGX H200"},
    GpuKind{"b200", "B200 SXM", 180, 8.0, 2250, 4500, 75, 900, 50, 100, "NVIDIA HGX and DGX B200 data sheets"},
};

double flops_of(const GpuKind& kind, const device::ProbedWork& work) {
  if (work.has_int8_weights) return kind.int8_tops * 1e12;
  return (work.dtype == DType::kFloat32 ? kind.f32_tflops : kind.bf16_tflops) * 1e12;
}

}  // namespace

std::span<const GpuKind> gpu_kinds() { return kKinds; }

const GpuKind& gpu_kind(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &GpuKind::name);
  LOCKSTEP_CHECK(found != kKinds.end(), name);
  return *found;
}

device::DeviceFacts facts_of(const GpuKind& kind, const device::ProbedWork& work) {
  const Bytes memory(static_cast<int64_t>(kind.memory_gb * 1e9) - kTakenByDriver.value);
  std::string words =
      fmt::format("{}: {} of {} GB, of which the driver is given {}, in hosts of {} ({})", kind.name, kind.words,
                  kind.memory_gb, lockstep::to_string(kTakenByDriver), kGpusOfHost, kind.source);
  if (kind.capability != kCapabilityOfImages) {
    words +=
        fmt::format("; this version's kernels are compiled for compute capability {}.{}, not {}.{}",
                    kCapabilityOfImages / 10, kCapabilityOfImages % 10, kind.capability / 10, kind.capability % 10);
  }
  return {.name = std::string(kind.name),
          .memory = memory,
          .words = std::move(words),
          .limits = device::PublishedLimits{
              .read_bytes_per_s = kind.read_tb_s * 1e12,
              .flops_per_s = flops_of(kind, work),
              .devices_per_host = kGpusOfHost,
              .within_host = {.bytes_per_s = kind.link_gb_s * 1e9, .latency_s = kLinkLatency},
              .between_hosts = {.bytes_per_s = kind.network_gb_s * 1e9, .latency_s = kNetworkLatency}}};
}

}  // namespace lockstep::cuda
