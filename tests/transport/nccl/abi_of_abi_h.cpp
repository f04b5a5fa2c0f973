#include <cstddef>

#include "tests/transport/nccl/abi_facts.h"
#include "transport/nccl/abi.h"

namespace lockstep::transport::nccl {
namespace {

ncclConfig_t config() { return {.size = sizeof(ncclConfig_t), .magic = kConfigMagic, .version = kConfigVersion}; }

#define DECLARED(name) name
#include "tests/transport/nccl/abi_facts.inc"

}  // namespace

std::vector<AbiFact> facts_of_abi_h() { return facts(); }

}  // namespace lockstep::transport::nccl
