#include "launcher/measure/sweep/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace lockstep::launcher {
namespace {

/// Some options limit a run, but do not change its measurement.
bool changes_results(std::string_view option) { return option != "--deadline-s" && option != "--memory-budget"; }

/// The words of `options` that change results; each option has at most one value.
std::vector<std::string> words_that_matter(const std::vector<std::string>& options) {
  std::vector<std::string> words;
  bool matters = true;
  for (const std::string& word : options) {
    if (word.starts_with("--")) matters = changes_results(word);
    if (matters) words.push_back(word);
  }
  return words;
}

}  // namespace

std::string to_string(const PointShape& shape) {
  const std::string replicas = shape.replicas > 1 ? fmt::format("{} x ", shape.replicas) : "";
  return fmt::format("{}tp {}, batch {}, {} prompt and {} new tokens", replicas, shape.tp, shape.batch,
                     shape.prompt_tokens, shape.new_tokens);
}

std::string split_name(const PointShape& shape) {
  return shape.replicas > 1 ? fmt::format("{} × TP {}", shape.replicas, shape.tp) : fmt::format("TP {}", shape.tp);
}

Result<std::vector<int64_t>> parse_counts(std::string_view list, std::string_view option, int64_t least, int64_t most) {
  std::vector<int64_t> counts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view word = list.substr(begin, end - begin);
    int64_t count = 0;
    const auto [stop, status] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (status != std::errc() || stop != word.data() + word.size() || count < least || count > most) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[launcher/sweep] {}: found \"{}\" in \"{}\", expected numbers from {} to {}, with "
                               "commas between them",
                               option, word, list, least, most)};
    }
    counts.push_back(count);
    begin = end + 1;
  }
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<PointShape> make_grid(const GridAxes& axes) {
  std::vector<PointShape> grid;
  const auto add_splits = [&](PointShape shape) {
    for (const int64_t replicas : axes.replicas) {
      for (const int64_t tp : axes.tp) {
        shape.replicas = static_cast<int>(replicas);
        shape.tp = static_cast<int>(tp);
        grid.push_back(shape);
      }
    }
  };
  for (const int64_t batch : axes.batch) {
    for (const int64_t prompt : axes.prompt_tokens) {
      add_splits({.batch = batch, .prompt_tokens = prompt, .new_tokens = axes.new_tokens});
    }
  }
  return grid;
}

std::string to_string(const SweepVariant& variant) {
  std::string text = fmt::format("{}", fmt::join(words_that_matter(variant.options), " "));
  if (!variant.launch.empty()) text += fmt::format("{}launched by {}", text.empty() ? "" : ", ", variant.launch);
  return text + (text.empty() ? "" : ", ") + "lockstep " + variant.version;
}

std::string key_of(const PointShape& shape, const SweepVariant& variant) {
  return fmt::format("{} | {} | {}", to_string(shape), to_string(variant),
                     variant.launch.empty() ? "default launch" : variant.launch);
}

}  // namespace lockstep::launcher
