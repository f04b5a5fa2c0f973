#include "runtime/backends/cuda/option_rows.h"

#include <array>

#include "runtime/backends/cuda/gpu_kind.h"

namespace lockstep::cuda {

std::span<const device::OptionRow> option_rows() {
  static constexpr std::string_view kSection = "GPUs (--backend cuda)";
  static constexpr std::array kRows = {
      device::OptionRow{.name = "cuda-driver",
                        .value_name = "FILE",
                        .otherwise = "libcuda.so.1",
                        .help = "The library of NVIDIA's driver",
                        .section = kSection,
                        .kind = device::OptionKind::kPath},
      device::OptionRow{.name = "device-kind",
                        .value_name = "KIND",
                        .help = "GPUs whose memory and limits count: a100-40, a100-80, h100, h200 or b200; omitted, a "
                                "plan takes h100, and a run the GPU that it uses",
                        .choices = kGpuKindNames,
                        .section = kSection,
                        .use = device::OptionUse::kRunningAndPlanning},
      device::OptionRow{.name = "nccl",
                        .value_name = "FILE",
                        .otherwise = "libnccl.so.2",
                        .help = "The library that connects GPUs of several hosts",
                        .section = kSection,
                        .kind = device::OptionKind::kPath},
      device::OptionRow{.name = "cublas",
                        .value_name = "FILE",
                        .otherwise = "libcublasLt.so.13",
                        .help = "The library of prefill's products with --numerics fast; also tried: libcublasLt.so.12",
                        .section = kSection,
                        .kind = device::OptionKind::kPath},
      device::OptionRow{.name = "plain-launches",
                        .help = "Start each kernel after the one ahead has ended; for measurements",
                        .section = kSection,
                        .kind = device::OptionKind::kFlag},
      device::OptionRow{.name = "share-devices",
                        .help = "Let several ranks use one GPU where a host has more ranks than GPUs; for tests",
                        .section = kSection,
                        .kind = device::OptionKind::kFlag},
  };
  return kRows;
}

}  // namespace lockstep::cuda
