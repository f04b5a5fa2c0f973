// Types with letters for what an operation leaves open: "dt[N,K]", "i32[T]", "f32[1,T,d]".
//
//   "dt[T,K]"  meets bf16[4,576]   →  dt = bf16, T = 4, K = 576
//   "dt[N,K]"  meets bf16[96,576]  →  N = 96; K has to be 576 by now
//
// `dt` stands for a floating-point type, `any` for every type, `rt` for the type that an operation's rule chooses for
// its result. "dt[R,N]|dt[N]" takes whichever alternative has the tensor's number of dimensions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "runtime/core/shape.h"

namespace lockstep::graph {

/// What the letters of one operation's patterns stand for.
class Symbols {
 public:
  void bind_size(std::string_view letter, int64_t size) { sizes_.insert_or_assign(std::string(letter), size); }
  void bind_type(std::string_view letter, DType type) { types_.insert_or_assign(std::string(letter), type); }

  /// The size or type behind a letter; a failed check when it is not bound.
  int64_t size(std::string_view letter) const;
  DType type(std::string_view letter) const;

  /// Whether `actual` fits `pattern`; binds the letters that it meets for the first time, or nothing if it does not.
  bool match(std::string_view pattern, const TensorType& actual);

  /// The type that `pattern` stands for, all of its letters being bound.
  TensorType resolve(std::string_view pattern) const;

  /// What is known of the letters of `pattern`: " with K=576, dt=bf16", empty when nothing is.
  std::string describe(std::string_view pattern) const;

 private:
  bool match_type(std::string_view letter, DType actual);
  bool match_size(std::string_view letter, int64_t actual);

  std::map<std::string, int64_t, std::less<>> sizes_;
  std::map<std::string, DType, std::less<>> types_;
};

}  // namespace lockstep::graph
