// Tensor types with letters as placeholders: "dt[N,K]", "i32[T]", "f32[1,T,d]".
//
//   "dt[T,K]" matches bf16[4,576]  →  dt = bf16, T = 4, K = 576
//   "dt[N,K]" matches bf16[96,576] →  N = 96; K must be 576
//
// `dt` stands for a floating-point type, `any` for every type, `ct` for that of a cache (checked by an operation's
// rule), `rt` for the result type chosen by an operation's rule. "dt[R,N]|dt[N]" takes the alternative with the
// tensor's number of dimensions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/core/shape.h"

namespace lockstep::graph {

/// The bindings of the letters in one operation's patterns.
class Symbols {
 public:
  void bind_size(std::string_view letter, int64_t size) { sizes_.insert_or_assign(std::string(letter), size); }
  void bind_type(std::string_view letter, DType type) { types_.insert_or_assign(std::string(letter), type); }

  /// The size or type bound to a letter; a failed check when it is not bound.
  int64_t size(std::string_view letter) const;
  DType type(std::string_view letter) const;

  /// Whether `actual` matches `pattern`. Binds the unbound letters on a match, nothing otherwise.
  bool match(std::string_view pattern, const TensorType& actual);

  /// The type described by `pattern`; all of its letters must be bound.
  TensorType resolve(std::string_view pattern) const;

  /// The bindings of the letters of `pattern`: " with K=576, dt=bf16"; empty when none is bound.
  std::string describe(std::string_view pattern) const;

 private:
  bool match_type(std::string_view letter, DType actual);
  bool match_size(std::string_view letter, int64_t actual);

  std::map<std::string, int64_t, std::less<>> sizes_;
  std::map<std::string, DType, std::less<>> types_;
};

}  // namespace lockstep::graph
