#include "tests/conformance/backend/backends.h"

#include "runtime/backends/cpu/cpu.h"

namespace lockstep::conformance {
namespace {

/// The CPU backend with each instruction set that this machine has.
void add_cpu_backends(std::vector<BackendUnderTest>& backends) {
  for (const cpu::Isa isa : cpu::available_isas()) {
    backends.push_back(
        {.name = "Cpu_" + std::string(to_string(isa)),
         .make = [isa](int threads) { return cpu::make_backend({.threads = threads, .cores = {}, .isa = isa}); },
         .rounds_weights_of_attention =
             isa >= cpu::Isa::kAvx512Bf16 ? std::vector{DType::kBFloat16} : std::vector<DType>{}});
  }
}

}  // namespace

const std::vector<BackendUnderTest>& backends_under_test() {
  static const std::vector<BackendUnderTest> kBackends = [] {
    std::vector<BackendUnderTest> backends = {reference_backend()};
    add_cpu_backends(backends);
    return backends;
  }();
  return kBackends;
}

}  // namespace lockstep::conformance
