// From tokens back to text: a chain of stages that are fed a token at a time, so decoding a stream and decoding a
// whole list are the same code.
//
//   "▁Hi" ─► Replace ▁ by space ─► ByteFallback ─► Fuse ─► Strip one space ─► "Hi"
//
// Some stages need to see where a piece ends (a run of <0x..> tokens is decoded as a whole), and Fuse makes one piece
// of all; therefore stages exchange fragments of pieces.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"

namespace lockstep::text {

/// A part of a piece.
struct Fragment {
  std::string text;
  bool ends_piece = true;
};

/// One stage at work on one stream. Not thread-safe.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual Result<void> put(Fragment fragment, std::vector<Fragment>& out) = 0;
  /// The stream has ended: gives out what was held back.
  virtual Result<void> finish(std::vector<Fragment>& out) = 0;
};

/// What tokenizer.json says about one stage. Immutable; thread-safe.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual std::unique_ptr<DecodeStage> open() const = 0;
};

using Decoder = std::vector<std::unique_ptr<DecodeStep>>;

/// Fails with `kUnsupported` on a type that is not known, naming it.
Result<Decoder> parse_decoder(const JsonField& field);

/// The decoder of a file that names none: tokens with a space between them.
Decoder plain_decoder();

}  // namespace lockstep::text
