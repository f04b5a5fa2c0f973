// What a set of declarations of the CUDA driver says, as values that can be compared. Two sources make them: one from
// cuda.h, one from runtime/cuda/abi.h, because C functions of one name cannot be declared with two types in one.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cu {

struct AbiFact {
  std::string name;
  std::vector<long long> values;

  friend bool operator==(const AbiFact&, const AbiFact&) = default;
};

std::vector<AbiFact> facts_of_cuda_h();
std::vector<AbiFact> facts_of_abi_h();

}  // namespace lockstep::cu
