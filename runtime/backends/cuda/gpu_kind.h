// Kinds of GPUs with their limits, as NVIDIA publishes them, for plans without a GPU.
#pragma once

#include <span>
#include <string_view>

#include "runtime/device/device_rules.h"

namespace lockstep::cuda {

/// One kind, as a module of a host of eight. Rates are of dense matrices.
struct GpuKind {
  std::string_view name;   // of --device-kind: "h100"
  std::string_view words;  // "H100 SXM"
  double memory_gb = 0;
  double read_tb_s = 0;
  double bf16_tflops = 0;  // also of float16
  double int8_tops = 0;
  double f32_tflops = 0;    // without tensor cores, which round factors
  double link_gb_s = 0;     // NVLink, in one direction
  double network_gb_s = 0;  // between hosts, of each GPU: one network card of the vendor's own host
  int capability = 0;       // 90 for 9.0
  std::string_view source;  // the data sheet
};

/// The choices of --device-kind.
inline constexpr std::string_view kGpuKindNames = "a100-40|a100-80|h100|h200|b200";
std::span<const GpuKind> gpu_kinds();
/// The kind of a name above.
const GpuKind& gpu_kind(std::string_view name);

/// What the driver's context, the kernels and the allocator's rounding take, estimated.
inline constexpr Bytes kTakenByDriver{int64_t{1} << 30};

device::DeviceFacts facts_of(const GpuKind& kind, const device::ProbedWork& work);

}  // namespace lockstep::cuda
