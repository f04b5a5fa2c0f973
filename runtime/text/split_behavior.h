// The treatment of delimiters when a text is cut:
//
//   the text "a-b--c", delimiter "-"
//   kRemoved             a | b | c
//   kIsolated            a | - | b | - | - | c
//   kMergedWithPrevious  a- | b- | - | c
//   kMergedWithNext      a | -b | - | -c
//   kContiguous          a | - | b | -- | c
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "runtime/text/json_field.h"
#include "runtime/text/pattern.h"

namespace lockstep::text {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class Delimiters { kMatches, kRest };  // the delimiters are the matches, or the text between them

Result<SplitBehavior> parse_split_behavior(const JsonField& field);

/// The non-empty parts of a text of `length` bytes, in order. `matches` are in order and do not overlap.
std::vector<Span> split_at(const std::vector<Span>& matches, size_t length, SplitBehavior behavior,
                           Delimiters delimiters);

}  // namespace lockstep::text
