// The element types of HLO in C++: their memory form and their arithmetic type. The
// narrow floats are computed in f32 and rounded after every operation.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "runtime/backends/neuron/hlo/module.h"
#include "runtime/core/dtype.h"

namespace lockstep::stand_in {

template <typename T>
struct Plain {
  using Raw = T;
  using Value = T;
  static Value load(Raw raw) { return raw; }
  static Raw store(Value value) { return value; }
};

struct F32 : Plain<float> {};
struct S32 : Plain<int32_t> {};
struct U32 : Plain<uint32_t> {};
struct U8 : Plain<uint8_t> {};
struct S8 : Plain<int8_t> {};

struct Pred {
  using Raw = uint8_t;
  using Value = bool;
  static Value load(Raw raw) { return raw != 0; }
  static Raw store(Value value) { return value ? 1 : 0; }
};

struct BF16 {
  using Raw = uint16_t;
  using Value = float;
  static Value load(Raw raw) { return to_float(BFloat16{raw}); }
  static Raw store(Value value) { return to_bfloat16(value).bits; }
};

struct F16 {
  using Raw = uint16_t;
  using Value = float;
  static Value load(Raw raw) { return to_float(Float16{raw}); }
  static Raw store(Value value) { return to_float16(value).bits; }
};

/// `visit(S())` with the type above that `element` names.
template <typename Visit>
auto with_element(neuron::hlo::Element element, Visit&& visit) {
  using neuron::hlo::Element;
  switch (element) {
    case Element::kPred: return visit(Pred());
    case Element::kS32: return visit(S32());
    case Element::kU32: return visit(U32());
    case Element::kU8: return visit(U8());
    case Element::kS8: return visit(S8());
    case Element::kBF16: return visit(BF16());
    case Element::kF16: return visit(F16());
    case Element::kF32: break;
  }
  return visit(F32());
}

/// Memory as elements of `S`. Storages are aligned.
template <typename S>
const typename S::Raw* elements(const std::byte* bytes) {
  return reinterpret_cast<const typename S::Raw*>(bytes);
}
template <typename S>
typename S::Raw* elements(std::byte* bytes) {
  return reinterpret_cast<typename S::Raw*>(bytes);
}

}  // namespace lockstep::stand_in
