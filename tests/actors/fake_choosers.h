// Choosers that check their logits: those of every row must belong to exactly the row's sequence. A wrong copy, a lost
// row or a stale token is detected at once.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "actors/request.h"
#include "runtime/generation/token_chooser.h"
#include "tests/actors/fake_engine.h"

namespace lockstep::actors {

inline constexpr int64_t kFakeVocabulary = 7;

/// Rows that continue one another at random, like beams. Tokens and sources follow from the seed and the logits.
class FakeBeams final : public generation::TokenChooser {
 public:
  struct Options {
    std::vector<std::vector<int32_t>> prompts;
    int64_t choices = 5;  // then it is finished
    bool streams = false;
    bool permutes = true;  // else every row continues itself
    uint32_t seed = 1;
  };

  explicit FakeBeams(Options options) : options_(std::move(options)), random_(options_.seed) {
    rows_ = options_.prompts;
  }

  int64_t rows() const override { return static_cast<int64_t>(options_.prompts.size()); }
  std::vector<std::vector<int32_t>> prompts() const override { return options_.prompts; }

  generation::Choice choose(std::span<const float> logits) override {
    check(logits);
    generation::Choice choice{.tokens = {}, .sources = {}, .finished = ++made_ == options_.choices};
    std::vector<std::vector<int32_t>> next;
    for (size_t r = 0; r < rows_.size(); ++r) {
      size_t source = options_.permutes ? random_() % rows_.size() : r;
      while (rows_[source].empty()) source = (source + 1) % rows_.size();
      const auto row = logits.subspan(source * kFakeVocabulary, kFakeVocabulary);
      const auto token = static_cast<int32_t>((std::ranges::max_element(row) - row.begin() + random_()) % row.size());
      choice.tokens.push_back(token);
      choice.sources.push_back(static_cast<int32_t>(source));
      next.push_back(rows_[source]);
      next.back().push_back(token);
    }
    rows_ = std::move(next);
    if (options_.streams) streamed_.push_back(choice.tokens.front());
    return choice;
  }

  std::span<const int32_t> certain() const override {
    return options_.streams ? std::span(streamed_).last(1) : std::span<const int32_t>();
  }
  std::vector<generation::Sequence> sequences() const override {
    std::vector<generation::Sequence> sequences;
    for (const auto& row : rows_) {
      sequences.push_back({.ids = row, .reason = generation::FinishReason::kEos, .records = {}});
    }
    return sequences;
  }

  int64_t made() const { return made_; }
  const std::vector<int32_t>& streamed() const { return streamed_; }
  int mistakes() const { return mistakes_; }

 private:
  void check(std::span<const float> logits) {
    if (std::ssize(logits) != rows() * kFakeVocabulary || made_ == options_.choices) return void(++mistakes_);
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r].empty()) continue;  // has not begun
      const auto expected = expected_logits(rows_[r], kFakeVocabulary);
      if (!std::ranges::equal(logits.subspan(r * kFakeVocabulary, kFakeVocabulary), expected)) ++mistakes_;
    }
  }

  const Options options_;
  std::mt19937 random_;
  std::vector<std::vector<int32_t>> rows_;
  std::vector<int32_t> streamed_;
  int64_t made_ = 0;
  int mistakes_ = 0;
};

/// One row controlled by the test.
class ScriptedChooser final : public generation::TokenChooser {
 public:
  using Script = std::function<generation::Choice(std::span<const float>)>;

  ScriptedChooser(std::vector<int32_t> prompt, Script script)
      : prompt_(std::move(prompt)), script_(std::move(script)) {}

  int64_t rows() const override { return 1; }
  std::vector<std::vector<int32_t>> prompts() const override { return {prompt_}; }
  generation::Choice choose(std::span<const float> logits) override { return script_(logits); }
  std::span<const int32_t> certain() const override { return {}; }
  std::vector<generation::Sequence> sequences() const override { return {}; }

 private:
  const std::vector<int32_t> prompt_;
  const Script script_;
};

inline Request request_with(int64_t id, std::shared_ptr<generation::TokenChooser> chooser, int32_t new_tokens) {
  Request made{.id = RequestId(id), .ids = {}, .parameters = {}, .chooser = std::move(chooser)};
  made.parameters.max_new_tokens = new_tokens;
  return made;
}

}  // namespace lockstep::actors
