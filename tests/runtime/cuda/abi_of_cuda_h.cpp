#include <cuda.h>

#include <cstddef>

#include "runtime/cuda/functions.h"
#include "tests/runtime/cuda/abi_facts.h"

namespace lockstep::cu {
namespace {

#define DECLARED(name) ::name
#define FLAG(ours, theirs) theirs
#define TEXT_OF(name) #name
#define EXPANDED(name) TEXT_OF(name)
#define NAME_OF(name, symbol) EXPANDED(cu##name)
#include "tests/runtime/cuda/abi_facts.inc"

}  // namespace

std::vector<AbiFact> facts_of_cuda_h() { return facts(); }

}  // namespace lockstep::cu
