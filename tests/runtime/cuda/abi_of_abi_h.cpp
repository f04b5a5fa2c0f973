#include <cstddef>

#include "runtime/cuda/abi.h"
#include "tests/runtime/cuda/abi_facts.h"

namespace lockstep::cu {
namespace {

#define DECLARED(name) lockstep::cu::name
#define FLAG(ours, theirs) ours
#define NAME_OF(name, symbol) "cu" #symbol
#include "tests/runtime/cuda/abi_facts.inc"

}  // namespace

std::vector<AbiFact> facts_of_abi_h() { return facts(); }

}  // namespace lockstep::cu
