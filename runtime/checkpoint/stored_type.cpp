#include "runtime/checkpoint/stored_type.h"

namespace lockstep::checkpoint {
namespace {

/// Most types serve only to check the sizes of unused tensors. C128 exists only in torch.
constexpr StoredType kStoredTypes[] = {{"F32", 32, DType::kFloat32},
                                       {"BF16", 16, DType::kBFloat16},
                                       {"F16", 16, DType::kFloat16},
                                       {"F64", 64},
                                       {"I64", 64},
                                       {"U64", 64},
                                       {"C64", 64},
                                       {"C128", 128},
                                       {"I32", 32},
                                       {"U32", 32},
                                       {"I16", 16},
                                       {"U16", 16},
                                       {"I8", 8},
                                       {"U8", 8},
                                       {"BOOL", 8},
                                       {"F8_E4M3", 8},
                                       {"F8_E5M2", 8},
                                       {"F8_E8M0", 8},
                                       {"F6_E2M3", 6},
                                       {"F6_E3M2", 6},
                                       {"F4", 4}};

}  // namespace

const StoredType* find_stored_type(std::string_view name) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace lockstep::checkpoint
