#include "launcher/serve/api/sequence.h"

#include <algorithm>
#include <iterator>

namespace lockstep::serve {
namespace {

/// Appends a piece; text of the same kind joins the last one.
void append(std::vector<OutputPiece>& pieces, OutputPiece piece) {
  using Kind = OutputPiece::Kind;
  const bool is_text =
      piece.kind == Kind::kContent || piece.kind == Kind::kReasoning || piece.kind == Kind::kToolArguments;
  if (is_text && piece.text.empty()) return;
  if (is_text && !pieces.empty() && pieces.back().kind == piece.kind && pieces.back().tool == piece.tool) {
    pieces.back().text += piece.text;
  } else {
    pieces.push_back(std::move(piece));
  }
}

}  // namespace

ChoicePart Sequence::take(std::vector<EngineToken> tokens, bool collect) {
  ChoicePart part{.index = choice_.index};
  for (EngineToken& token : tokens) {
    bool reasons = false;
    if (!reader_) {
      append(part.pieces, {.text = token.text});
    } else {
      for (OutputPiece& piece : reader_->put(token.text)) {
        reasons = reasons || piece.kind == OutputPiece::Kind::kReasoning;
        append(part.pieces, std::move(piece));
      }
    }
    if (token.id < 0) continue;
    reasoning_tokens_ += reasons ? 1 : 0;
    logprob_sum_ += token.logprob.value_or(0.0f);
    ++count_;
    part.tokens.push_back(std::move(token));
  }
  note_pieces(part.pieces, collect);
  if (collect) std::ranges::copy(part.tokens, std::back_inserter(choice_.tokens));
  return part;
}

ChoicePart Sequence::finish(bool collect) {
  ChoicePart part{.index = choice_.index};
  if (!reader_) return part;
  for (OutputPiece& piece : reader_->finish()) append(part.pieces, std::move(piece));
  note_pieces(part.pieces, collect);
  return part;
}

void Sequence::note_pieces(const std::vector<OutputPiece>& pieces, bool collect) {
  using Kind = OutputPiece::Kind;
  for (const OutputPiece& piece : pieces) {
    has_tools_ = has_tools_ || piece.kind == Kind::kToolBegin;
    if (!collect) continue;
    if (piece.kind == Kind::kContent) choice_.content += piece.text;
    if (piece.kind == Kind::kReasoning) choice_.reasoning += piece.text;
    if (piece.kind == Kind::kToolBegin) choice_.tools.push_back({piece.text, {}});
    if (piece.kind == Kind::kToolArguments && !choice_.tools.empty()) choice_.tools.back().arguments += piece.text;
  }
}

}  // namespace lockstep::serve
