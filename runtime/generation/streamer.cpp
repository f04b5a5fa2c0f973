#include "runtime/generation/streamer.h"

#include <string>
#include <utility>

namespace lockstep::generation {

TextStreamer::TextStreamer(const text::Tokenizer& tokenizer, Streamer& receiver, PromptText prompt,
                           text::SpecialPieces special)
    : decoder_(tokenizer, special), receiver_(&receiver), skips_next_(prompt == PromptText::kSkip) {}

Result<void> TextStreamer::put(std::span<const int32_t> ids) {
  if (std::exchange(skips_next_, false)) return ok();
  std::string text;
  for (const int32_t id : ids) {
    LOCKSTEP_TRY(const std::string piece, decoder_.put(id));
    text += piece;
  }
  receiver_->put(text);
  return ok();
}

Result<void> TextStreamer::end(FinishReason reason) {
  LOCKSTEP_TRY(const std::string rest, decoder_.finish());
  if (!rest.empty()) receiver_->put(rest);
  receiver_->end(reason);
  return ok();
}

std::optional<Duration> TokenTimes::time_to_first_token() const {
  if (came_.empty()) return std::nullopt;
  return came_.front() - asked_;
}

std::optional<Duration> TokenTimes::time_per_output_token() const {
  if (came_.size() < 2) return std::nullopt;
  return (came_.back() - came_.front()) / (came_.size() - 1);
}

std::vector<Duration> TokenTimes::latencies() const {
  std::vector<Duration> latencies;
  latencies.reserve(came_.size());
  TimePoint before = asked_;
  for (const TimePoint time : came_) {
    latencies.push_back(time - before);
    before = time;
  }
  return latencies;
}

}  // namespace lockstep::generation
