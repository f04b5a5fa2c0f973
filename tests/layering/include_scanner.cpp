#include "tests/layering/include_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

namespace lockstep::layering {
namespace {

enum class Literals { kKeep, kBlank };

/// Walks over C++ text and blanks everything except code. Newlines stay, so that lines keep their numbers.
class Blanker {
 public:
  Blanker(std::string_view text, Literals literals) : text_(text), literals_(literals) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (starts("//")) {
        skip_to("\n", /*through=*/0, Literals::kBlank);
      } else if (starts("/*")) {
        skip_to("*/", /*through=*/2, Literals::kBlank);
      } else if (starts("R\"")) {
        const size_t open = text_.find('(', at_);
        const std::string_view delimiter = text_.substr(at_ + 2, open - at_ - 2);
        skip_to(fmt::format("){}\"", delimiter), delimiter.size() + 2, literals_);
      } else if (text_[at_] == '"' || (text_[at_] == '\'' && !is_digit_separator())) {
        skip_quoted(text_[at_]);
      } else {
        out_ += text_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  bool starts(std::string_view word) const { return text_.substr(at_, word.size()) == word; }

  bool is_digit_separator() const { return at_ > 0 && std::isalnum(static_cast<unsigned char>(text_[at_ - 1])); }

  void put(char c, Literals literals) { out_ += literals == Literals::kKeep || c == '\n' ? c : ' '; }

  void skip_to(std::string_view end, size_t through, Literals literals) {
    const size_t found = text_.find(end, at_ + 2);
    const size_t stop = found == std::string_view::npos ? text_.size() : found + through;
    while (at_ < stop) put(text_[at_++], literals);
  }

  void skip_quoted(char quote) {
    out_ += text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) put(text_[at_++], literals_);
      put(text_[at_++], literals_);
    }
    if (at_ < text_.size()) out_ += text_[at_++];
  }

  std::string_view text_;
  Literals literals_;
  size_t at_ = 0;
  std::string out_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool is_below(std::string_view path, std::string_view folder) {
  return path == folder || (path.starts_with(folder) && path.substr(folder.size()).starts_with('/'));
}

/// Whether a pattern of a rule ("runtime/core", "runtime/*", "**") covers the row called `folder`.
bool covers(std::string_view pattern, std::string_view folder) {
  if (pattern == "**") return true;
  if (!pattern.ends_with("/*")) return pattern == folder;
  const std::string_view parent = pattern.substr(0, pattern.size() - 1);  // with the slash
  return folder.starts_with(parent) && folder.find('/', parent.size()) == std::string_view::npos;
}

bool any_covers(const std::vector<std::string>& patterns, std::string_view folder) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return covers(pattern, folder); });
}

/// Public headers are included as their users include them.
std::string path_of(const std::string& include) {
  return include.starts_with("lockstep/") ? "engine/include/" + include : include;
}

bool is_test(const FolderRule& folder) { return is_below(folder.folder, "tests"); }

/// The violation of a quoted include; empty if there is none.
std::string judge_project_include(const Rules& rules, const FolderRule& own, const std::string& name) {
  const FolderRule* other = folder_of(rules, path_of(name));
  if (other == nullptr) return fmt::format("\"{}\" does not start at the project's root", name);
  if (other == &own) return {};
  if (!any_covers(own.may_include, other->folder)) {
    return fmt::format("{} may not include {} (\"{}\")", own.folder, other->folder, name);
  }
  const bool is_public = other->public_headers.empty() || std::ranges::count(other->public_headers, name) > 0;
  if (!is_public && !is_test(own)) return fmt::format("\"{}\" is private to {}", name, other->folder);
  return {};
}

/// The violation of an include in angle brackets; empty if there is none.
std::string judge_third_party(const Rules& rules, const FolderRule& own, std::string_view path,
                              const std::string& name) {
  if (is_test(own) || name.find_first_of("./") == std::string::npos) return {};  // <vector>
  if (folder_of(rules, name) != nullptr) return fmt::format("<{}> is ours: use quotes", name);
  for (const ThirdPartyRule& rule : rules.third_parties) {
    if (!name.starts_with(rule.prefix)) continue;
    if (any_covers(rule.folders, own.folder) || any_covers(rule.folders, path)) return {};
    return fmt::format("{} may not use <{}>: it belongs to {}", own.folder, name, fmt::join(rule.folders, ", "));
  }
  return fmt::format("<{}> is in no row of the table of third parties", name);
}

void judge_includes(const Rules& rules, const FolderRule& own, const Source& source, std::vector<Violation>& found) {
  for (const Include& include : includes_of(source.text)) {
    std::string message = include.angled ? judge_third_party(rules, own, source.path, include.name)
                                         : judge_project_include(rules, own, include.name);
    if (!message.empty()) found.push_back({source.path, include.line, std::move(message)});
  }
}

void judge_words(const Rules& rules, const FolderRule& own, const Source& source, std::vector<Violation>& found) {
  const std::vector<std::string> lines = lines_of(code_of(source.text));
  for (const WordRule& rule : rules.words) {
    if (any_covers(rule.folders, own.folder) || any_covers(rule.folders, source.path)) continue;
    const std::regex pattern(rule.pattern, std::regex::ECMAScript | std::regex::optimize);
    for (size_t i = 0; i < lines.size(); ++i) {
      if (std::smatch match; std::regex_search(lines[i], match, pattern)) {
        found.push_back(
            {source.path, static_cast<int>(i) + 1, fmt::format("`{}` here: {}", match.str(), rule.instead)});
      }
    }
  }
}

void judge_name(const Rules& rules, const Source& source, std::vector<Violation>& found) {
  std::istringstream stem(std::filesystem::path(source.path).stem().string());
  for (std::string part; std::getline(stem, part, '_');) {
    if (std::ranges::count(rules.banned_names, part) > 0) {
      found.push_back({source.path, 0, fmt::format("'{}' says nothing: name the concept inside", part)});
    }
  }
}

}  // namespace

std::string to_string(const Violation& violation) {
  return fmt::format("{}:{}: {}", violation.path, violation.line, violation.message);
}

std::string code_of(std::string_view text) { return Blanker(text, Literals::kBlank).run(); }

std::vector<Include> includes_of(std::string_view text) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> includes;
  int number = 0;
  // Quotes of an include look like a literal, so literals are kept here; lines inside raw literals are detected below.
  const std::vector<std::string> code = lines_of(code_of(text));
  for (const std::string& line : lines_of(Blanker(text, Literals::kKeep).run())) {
    const bool is_code = code[number++].find("include") != std::string::npos;
    if (std::smatch match; is_code && std::regex_search(line, match, pattern)) {
      includes.push_back({number, match[1] == "<", match[2]});
    }
  }
  return includes;
}

const FolderRule* folder_of(const Rules& rules, std::string_view path) {
  const FolderRule* best = nullptr;
  for (const FolderRule& rule : rules.folders) {
    const bool longer = best == nullptr || rule.folder.size() > best->folder.size();
    if (longer && is_below(path, rule.folder)) best = &rule;
  }
  return best;
}

std::vector<Violation> violations_of(const Rules& rules, const Source& source) {
  std::vector<Violation> found;
  judge_name(rules, source, found);
  if (const FolderRule* own = folder_of(rules, source.path); own == nullptr) {
    found.push_back({source.path, 0, "no row of the table holds this folder"});
  } else {
    judge_includes(rules, *own, source, found);
    judge_words(rules, *own, source, found);
  }
  std::ranges::stable_sort(found, {}, &Violation::line);
  return found;
}

}  // namespace lockstep::layering
