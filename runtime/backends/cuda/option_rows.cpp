#include "runtime/backends/cuda/option_rows.h"

#include <array>

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
