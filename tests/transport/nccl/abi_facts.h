// What a set of declarations of NCCL says, as values that can be compared. Two sources make them: one from nccl.h, one
// from transport/nccl/abi.h, because C functions of one name cannot be declared with two types in one.
#pragma once

#include <string>
#include <vector>

namespace lockstep::transport::nccl {

struct AbiFact {
  std::string name;
  std::vector<long long> values;

  friend bool operator==(const AbiFact&, const AbiFact&) = default;
};

std::vector<AbiFact> facts_of_nccl_h();  // none where it is not installed
std::vector<AbiFact> facts_of_abi_h();

}  // namespace lockstep::transport::nccl
