#include "tests/neuron_stand_in/nrt/report.h"

#include <fmt/format.h>

namespace lockstep::stand_in {

nrt::NRT_STATUS refuse(nrt::NRT_STATUS status, const std::string& message) {
  fmt::print(stderr, "[stand-in libnrt] {} (status {})\n", message, static_cast<int>(status));
  return status;
}

}  // namespace lockstep::stand_in
