// The filter `tojson`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/text/jinja/library.h"
#include "runtime/text/unicode.h"

namespace lockstep::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(const Arguments& arguments, Budget& budget) : budget_(budget) {
    ascii_ = flag_argument(arguments, 0, "ensure_ascii", false);
    if (const Value* indent = arguments.find(1, "indent"); indent != nullptr && !indent->is_none()) {
      has_indent_ = true;
      if (indent->string() != nullptr) {
        indent_ = *indent->string();
      } else {
        indent_.assign(static_cast<size_t>(std::clamp<int64_t>(integer_in(*indent), 0, 100)), ' ');
      }
      comma_ = ",";
    }
    if (const Value* separators = arguments.find(2, "separators"); separators != nullptr && !separators->is_none()) {
      const auto pair = items_of(*separators);
      if (pair.size() != 2) throw RenderFailure("separators are two strings");
      comma_ = string_in(pair[0]);
      colon_ = string_in(pair[1]);
    }
    sort_keys_ = flag_argument(arguments, 3, "sort_keys", false);
  }

  std::string write(const Value& value) {
    put(value, 0);
    return std::move(out_);
  }

 private:
  void put(const Value& value, size_t level) {
    budget_.step();
    const size_t before = out_.size();
    if (const std::string* text = value.string()) {
      put_string(*text);
    } else if (const List* list = value.list()) {
      put_list(*list, level);
    } else if (const Dict* dict = value.dict()) {
      put_dict(*dict, level);
    } else {
      out_ += scalar(value);
    }
    budget_.bytes(out_.size() - before);
  }

  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (const bool* b = value.boolean()) return *b ? "true" : "false";
    if (const double* d = value.real(); d != nullptr && !std::isfinite(*d)) {
      return std::isnan(*d) ? "NaN" : *d > 0 ? "Infinity" : "-Infinity";
    }
    if (value.integer() != nullptr || value.real() != nullptr) return to_text(value);
    throw RenderFailure(fmt::format("a value of type {} cannot be written as JSON", type_name(value)));
  }

  void put_string(std::string_view text) {
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = text::next_char(text, at);
      constexpr std::string_view kNamed = "\"\\\n\r\t\f\b";
      if (const size_t i = c < 0x80 ? kNamed.find(static_cast<char>(c)) : std::string_view::npos;
          i != std::string_view::npos) {
        out_ += {'\\', "\"\\nrtfb"[i]};
      } else if (c < 0x20 || (ascii_ && c >= 0x7F)) {
        put_escape(c);
      } else {
        out_ += text.substr(begin, at - begin);
      }
    }
    out_ += '"';
  }

  void put_escape(char32_t c) {
    if (c == 0x7F) {
      out_ += static_cast<char>(c);
    } else if (c < 0x10000) {
      out_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      const auto rest = static_cast<uint32_t>(c) - 0x10000;
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  }

  void new_line(size_t level) {
    if (!has_indent_) return;
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += indent_;
  }

  void put_list(const List& list, size_t level) {
    if (list.items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += comma_;
      new_line(level + 1);
      put(list.items[i], level + 1);
    }
    new_line(level);
    out_ += ']';
  }

  void put_dict(const Dict& dict, size_t level) {
    if (dict.items.empty()) {
      out_ += "{}";
      return;
    }
    auto items = dict.items;
    if (sort_keys_) {
      std::stable_sort(items.begin(), items.end(),
                       [](const auto& a, const auto& b) { return compare(a.first, b.first) < 0; });
    }
    out_ += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += comma_;
      new_line(level + 1);
      put_string(items[i].first.string() != nullptr ? *items[i].first.string() : scalar(items[i].first));
      out_ += colon_;
      put(items[i].second, level + 1);
    }
    new_line(level);
    out_ += '}';
  }

  Budget& budget_;
  bool ascii_ = false;
  bool has_indent_ = false;
  bool sort_keys_ = false;
  std::string indent_;
  std::string comma_ = ", ";
  std::string colon_ = ": ";
  std::string out_;
};

}  // namespace

std::string to_json(const Value& value, const Arguments& arguments, Budget& budget) {
  return JsonWriter(arguments, budget).write(value);
}

}  // namespace lockstep::jinja
