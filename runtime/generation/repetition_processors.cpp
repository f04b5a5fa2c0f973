#include "runtime/generation/repetition_processors.h"

#include <algorithm>
#include <limits>
#include <map>

namespace lockstep::generation {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

std::vector<int32_t> unique_of(std::span<const int32_t> ids) {
  std::vector<int32_t> unique(ids.begin(), ids.end());
  std::ranges::sort(unique);
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  return unique;
}

bool is_in(int32_t id, std::span<const float> scores) { return id >= 0 && static_cast<size_t>(id) < scores.size(); }

void penalise(std::span<const int32_t> unique_ids, float penalty, std::span<float> scores) {
  for (const int32_t id : unique_ids) {
    if (!is_in(id, scores)) continue;
    float& score = scores[static_cast<size_t>(id)];
    score = score < 0.0f ? score * penalty : score / penalty;
  }
}

/// Excludes the last id of each run of `size` ids in `text` whose beginning matches the end of `ids`.
void ban_repetitions(std::span<const int32_t> text, size_t size, std::span<const int32_t> ids,
                     std::span<float> scores) {
  if (text.size() < size || ids.size() + 1 < size) return;
  const std::span<const int32_t> end = ids.last(size - 1);
  for (size_t i = 0; i + size <= text.size(); ++i) {
    const int32_t next = text[i + size - 1];
    if (is_in(next, scores) && std::ranges::equal(text.subspan(i, size - 1), end)) {
      scores[static_cast<size_t>(next)] = kExcluded;
    }
  }
}

std::vector<BiasedSequence> excluded_sequences(std::span<const std::vector<int32_t>> words,
                                               std::span<const int32_t> eos) {
  std::vector<BiasedSequence> sequences;
  for (const std::vector<int32_t>& word : words) {
    const bool is_end = word.size() == 1 && std::ranges::find(eos, word.front()) != eos.end();
    if (!is_end) sequences.push_back({word, -std::numeric_limits<double>::infinity()});
  }
  return sequences;
}

}  // namespace

void RepetitionPenalty::process(std::span<const int32_t> ids, std::span<float> scores) const {
  penalise(unique_of(ids.subspan(std::min(ignored_, ids.size()))), penalty_, scores);
}

PromptPenalty::PromptPenalty(double penalty, std::span<const int32_t> prompt)
    : penalty_(static_cast<float>(1.0 / penalty)), prompt_(unique_of(prompt)) {}

void PromptPenalty::process(std::span<const int32_t>, std::span<float> scores) const {
  penalise(prompt_, penalty_, scores);
}

void AnswerPenalty::process(std::span<const int32_t> ids, std::span<float> scores) const {
  const std::span<const int32_t> answer = ids.subspan(std::min(prompt_, ids.size()));
  std::map<int32_t, int> counts;
  for (const int32_t id : answer) {
    if (is_in(id, scores)) ++counts[id];
  }
  for (const auto& [id, count] : counts) {
    scores[static_cast<size_t>(id)] -= presence_ + frequency_ * static_cast<float>(count);
  }
}

void NoRepeatNgram::process(std::span<const int32_t> ids, std::span<float> scores) const {
  ban_repetitions(ids, size_, ids, scores);
}

void NoPromptNgram::process(std::span<const int32_t> ids, std::span<float> scores) const {
  ban_repetitions(prompt_, size_, ids, scores);
}

SequenceBias::SequenceBias(std::span<const BiasedSequence> sequences) {
  for (const BiasedSequence& sequence : sequences) {
    const auto same = std::ranges::find(sequences_, sequence.ids, &BiasedSequence::ids);
    if (same != sequences_.end()) {
      same->bias = sequence.bias;
    } else {
      sequences_.push_back(sequence);
    }
  }
  std::ranges::stable_sort(sequences_, {}, [](const BiasedSequence& sequence) { return sequence.ids.size(); });
}

/// The biases of an id are summed before they are added to its score.
void SequenceBias::process(std::span<const int32_t> ids, std::span<float> scores) const {
  std::vector<std::pair<size_t, float>> biases;
  for (const BiasedSequence& sequence : sequences_) {
    const std::span<const int32_t> prefix = std::span(sequence.ids).first(sequence.ids.size() - 1);
    if (prefix.size() > ids.size() || !std::ranges::equal(ids.last(prefix.size()), prefix)) continue;
    if (!is_in(sequence.ids.back(), scores)) continue;
    const auto id = static_cast<size_t>(sequence.ids.back());
    const auto found = std::ranges::find(biases, id, &std::pair<size_t, float>::first);
    const auto bias = static_cast<float>(sequence.bias);
    if (found == biases.end()) {
      biases.emplace_back(id, bias);
    } else {
      found->second += bias;
    }
  }
  for (const auto& [id, bias] : biases) scores[id] += bias;
}

BadWords::BadWords(std::span<const std::vector<int32_t>> words, std::span<const int32_t> eos)
    : bias_(excluded_sequences(words, eos)) {}

}  // namespace lockstep::generation
