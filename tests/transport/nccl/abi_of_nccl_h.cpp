#include "tests/transport/nccl/abi_facts.h"

#ifdef HAS_NCCL_H
#include <nccl.h>

#include <cstddef>

#include "transport/nccl/functions.h"

namespace lockstep::transport::nccl {
namespace {

::ncclConfig_t config() { return NCCL_CONFIG_INITIALIZER; }

#define DECLARED(name) ::name
#include "tests/transport/nccl/abi_facts.inc"

}  // namespace

std::vector<AbiFact> facts_of_nccl_h() { return facts(); }

}  // namespace lockstep::transport::nccl
#else
std::vector<lockstep::transport::nccl::AbiFact> lockstep::transport::nccl::facts_of_nccl_h() { return {}; }
#endif
