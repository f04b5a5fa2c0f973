// Decoding of tokens to text with a chain of stages. The stages process one token at a time, so streams and complete
// lists use the same code.
//
//   "▁Hi" ─► Replace ▁ by space ─► ByteFallback ─► Fuse ─► Strip one space ─► "Hi"
//
// Stages exchange fragments of pieces, because some stages depend on the ends of pieces (a run of <0x..> tokens is
// decoded as a whole) and Fuse joins all pieces.
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

/// The state of one stage for one stream. Not thread-safe.
class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual Result<void> put(Fragment fragment, std::vector<Fragment>& out) = 0;
  /// Ends the stream and outputs the text held back.
  virtual Result<void> finish(std::vector<Fragment>& out) = 0;
};

/// The configuration of one stage in tokenizer.json. Immutable; thread-safe.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual std::unique_ptr<DecodeStage> open() const = 0;
};

using Decoder = std::vector<std::unique_ptr<DecodeStep>>;

/// Fails with `kUnsupported` on an unknown type, naming it.
Result<Decoder> parse_decoder(const JsonField& field);

/// The default decoder: tokens separated by spaces.
Decoder plain_decoder();

}  // namespace lockstep::text
