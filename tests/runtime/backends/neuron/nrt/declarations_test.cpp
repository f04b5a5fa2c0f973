// Compares abi.h with the facts of tools/nrt_declarations.py about the public headers, at compile time.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>

#include "runtime/backends/neuron/nrt/abi.h"

namespace lockstep::nrt {
namespace {

#define FUNCTION(name, ...) \
  static_assert(std::is_same_v<decltype(name), Signature<__VA_ARGS__>::type>, #name " has another signature");
#define ENUMERATOR(name, value) static_assert(name == value, #name " has another value");
#define SIZE(structure, bytes) static_assert(sizeof(structure) == bytes, #structure " has another size");
#define FIELD(structure, field, offset, bytes)                                             \
  static_assert(offsetof(structure, field) == offset && sizeof(structure::field) == bytes, \
                #structure "." #field " lies elsewhere");

template <typename Returned, typename... Parameters>
struct Signature {
  using type = Returned(Parameters...);
};

#include "tests/runtime/backends/neuron/nrt/declarations.inc"

#undef FUNCTION
#undef ENUMERATOR
#undef SIZE
#undef FIELD

TEST(Abi, HasNoFunctionThatThePublicHeadersLack) {
#define FUNCTION(name, ...) #name,
#define ENUMERATOR(name, value)
#define SIZE(structure, bytes)
#define FIELD(structure, field, offset, bytes)
  const std::set<std::string> declared = {
#include "tests/runtime/backends/neuron/nrt/declarations.inc"
  };
#define LOCKSTEP_NRT_NAME(name) "nrt_" #name,
  const std::set<std::string> used = {LOCKSTEP_NRT_REQUIRED_FUNCTIONS(LOCKSTEP_NRT_NAME)
                                          LOCKSTEP_NRT_OPTIONAL_FUNCTIONS(LOCKSTEP_NRT_NAME)};
  EXPECT_EQ(used, declared);
}

TEST(Abi, FindsTensorsBehindTheirCount) {
  alignas(nrt_tensor_info_array_t) unsigned char memory[sizeof(uint64_t) + 2 * sizeof(nrt_tensor_info_t)] = {};
  auto* array = reinterpret_cast<nrt_tensor_info_array_t*>(memory);
  EXPECT_EQ(static_cast<void*>(array->tensors() + 1), memory + sizeof(uint64_t) + sizeof(nrt_tensor_info_t));
}

}  // namespace
}  // namespace lockstep::nrt
