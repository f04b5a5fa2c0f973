#include "runtime/text/tokenizer_settings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "runtime/gguf/model_texts.h"
#include "runtime/text/class_choice.h"
#include "runtime/text/json_field.h"
#include "runtime/text/text_files.h"

namespace lockstep::text {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// The names of special tokens that every class has, in transformers' order.
constexpr std::array<std::string_view, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                    "pad_token", "cls_token", "mask_token"};

/// A JSON object whose members have the order of the text.
class Document {
 public:
  explicit Document(std::string origin, ordered_json ordered = ordered_json::object())
      : origin_(std::move(origin)), ordered_(std::move(ordered)), values_(ordered_) {}

  JsonField root() const { return JsonField(values_, origin_); }
  const ordered_json& ordered() const { return ordered_; }

 private:
  std::string origin_;
  ordered_json ordered_;
  json values_;  // the same without the order, which JsonField reads
};

/// An object without members where there is no such file.
Result<Document> read_document(const std::filesystem::path& path) {
  LOCKSTEP_TRY(const auto text, gguf::read_model_text(path));
  if (!text) return Document(path.string());
  ordered_json parsed = ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return Document(path.string()).root().invalid("no JSON object", "a JSON object");
  return Document(path.string(), std::move(parsed));
}

bool is_usual(std::string_view name) { return std::ranges::find(kNames, name) != kNames.end(); }

AddedToken plain_special(std::string content) {
  AddedToken token;
  token.content = std::move(content);
  token.special = true;
  return token;
}

/// Whether `token` is as one that is written as a text.
bool is_plain(const AddedToken& token) {
  return !token.single_word && !token.lstrip && !token.rstrip && !token.normalized;
}

bool contains(const std::vector<AddedToken>& tokens, std::string_view content) {
  return std::ranges::any_of(tokens, [&](const AddedToken& token) { return token.content == content; });
}

std::vector<AddedToken> tokens_of(const std::vector<SpecialToken>& special) {
  std::vector<AddedToken> tokens;
  for (const SpecialToken& one : special) tokens.push_back(one.token);
  return tokens;
}

/// A special token: a text, or an object with its settings.
Result<AddedToken> special_token(const JsonField& field) {
  if (!field.value().is_object()) {
    LOCKSTEP_TRY(std::string content, field.string());
    return plain_special(std::move(content));
  }
  LOCKSTEP_TRY(AddedToken token, parse_added_token(field));
  token.special = true;
  return token;
}

/// Puts `special` in place of the one of its name.
void name_token(std::vector<SpecialToken>& named, SpecialToken special) {
  const auto entry = std::ranges::find(named, special.name, &SpecialToken::name);
  if (entry == named.end()) {
    named.push_back(std::move(special));
  } else {
    *entry = std::move(special);
  }
}

/// Special tokens without a name.
using Extra = std::optional<std::vector<AddedToken>>;

/// The special tokens of the files that were read so far. Which of two with the same name counts, and which gets its id
/// first, is as in transformers.
struct FoundTokens {
  std::vector<SpecialToken> named;  // those with usual names, in any order, and others
  std::vector<SpecialToken> texts;  // texts with other names in tokenizer_config.json; they count more than `named`
  Extra extra;                      // of extra_special_tokens
  Extra older_extra;                // of additional_special_tokens, where it is not read as the other

  std::vector<SpecialToken> named_in_order() && {
    for (SpecialToken& special : texts) name_token(named, std::move(special));
    std::ranges::stable_sort(named, {}, [](const SpecialToken& special) {
      return std::ranges::find(kNames, special.name) - kNames.begin();
    });
    return std::move(named);
  }
};

/// Adds the named tokens of `document` to `named`, texts with unusual names to `unusual_texts`; null removes one.
Result<void> read_named(const Document& document, std::vector<SpecialToken>& named,
                        std::vector<SpecialToken>& unusual_texts) {
  for (const auto& [key, value] : document.ordered().items()) {
    const bool usual = is_usual(key);
    if (!usual && !key.ends_with("_token")) continue;
    if (value.is_null()) {
      std::erase_if(named, [&name = key](const SpecialToken& special) { return special.name == name; });
      continue;
    }
    if (!usual && !value.is_string() && !value.is_object()) continue;  // add_bos_token
    LOCKSTEP_TRY(const JsonField field, document.root().at(key));
    LOCKSTEP_TRY(AddedToken token, special_token(field));
    name_token(!usual && value.is_string() ? unusual_texts : named, {key, std::move(token)});
  }
  return ok();
}

/// The list `key`; where it is an object, its tokens are named ones, and there is no list.
Result<Extra> read_extra(const Document& document, const std::string& key, FoundTokens& found) {
  const auto field = document.root().find(key);
  if (!field) return Extra();
  if (field->value().is_object()) {
    for (const auto& [name, value] : document.ordered()[key].items()) {
      LOCKSTEP_TRY(const JsonField member, field->at(name));
      LOCKSTEP_TRY(AddedToken token, special_token(member));
      name_token(found.texts, {name, std::move(token)});
    }
    return Extra();
  }
  LOCKSTEP_TRY(const auto elements, field->elements());
  Extra extra(std::in_place);
  for (const JsonField& element : elements) {
    LOCKSTEP_TRY(AddedToken token, special_token(element));
    extra->push_back(std::move(token));
  }
  return extra;
}

/// Of tokenizer_config.json.
Result<void> read_config_tokens(const Document& config, FoundTokens& found) {
  LOCKSTEP_TRY_VOID(read_named(config, found.named, found.texts));
  LOCKSTEP_TRY(found.extra, read_extra(config, "extra_special_tokens", found));
  LOCKSTEP_TRY(found.older_extra, read_extra(config, "additional_special_tokens", found));
  const auto field = config.root().find("extra_special_tokens");
  const bool is_empty = !field || field->value().empty();
  if (found.older_extra && is_empty) found.extra = std::exchange(found.older_extra, std::nullopt);
  return ok();
}

/// Of special_tokens_map.json, which is read behind tokenizer_config.json.
Result<void> read_map_tokens(const Document& map, FoundTokens& found) {
  LOCKSTEP_TRY_VOID(read_named(map, found.named, found.named));
  LOCKSTEP_TRY(const Extra more, read_extra(map, "extra_special_tokens", found));
  if (more && !found.extra) found.extra.emplace();
  if (more) found.extra->insert(found.extra->end(), more->begin(), more->end());
  LOCKSTEP_TRY(Extra older_more, read_extra(map, "additional_special_tokens", found));
  if (older_more) found.older_extra = std::move(older_more);
  return ok();
}

/// added_tokens_decoder of tokenizer_config.json: {"0": {"content": "<s>", …}, …}
Result<std::map<int64_t, AddedToken>> listed_tokens(const JsonField& object) {
  std::map<int64_t, AddedToken> by_id;
  for (const auto& [key, value] : object.value().items()) {
    LOCKSTEP_TRY(const JsonField field, object.at(key));
    const json number = json::parse(key, nullptr, /*allow_exceptions=*/false);
    if (!number.is_number_integer()) return field.invalid(fmt::format("the key \"{}\"", key), "an id");
    LOCKSTEP_TRY(by_id[number.get<int64_t>()], parse_added_token(field));
  }
  return by_id;
}

/// added_tokens.json: {"<token>": id, …}; those that are special tokens are special.
Result<std::map<int64_t, AddedToken>> older_tokens(const JsonField& object, const FoundTokens& found) {
  std::map<int64_t, AddedToken> by_id;
  for (const auto& [content, value] : object.value().items()) {
    LOCKSTEP_TRY(const JsonField field, object.at(content));
    LOCKSTEP_TRY(const int64_t id, field.integer(0, kMaxIds - 1));
    const bool has_name = std::ranges::any_of(found.named, [&text = content](const SpecialToken& special) {
      return is_usual(special.name) && special.token.content == text;
    });
    AddedToken& token = by_id[id] = plain_special(content);
    token.special = has_name || (found.extra && contains(*found.extra, content));
    token.normalized = !token.special;
  }
  return by_id;
}

/// `chat_template`: a text, or several by name: a list of {"name": …, "template": …}, or an object.
Result<std::map<std::string, std::string>> configured_templates(const JsonField& config) {
  std::map<std::string, std::string> templates;
  const auto field = config.find("chat_template");
  if (!field) return templates;
  if (field->value().is_string()) {
    LOCKSTEP_TRY(templates["default"], field->string());
    return templates;
  }
  if (field->value().is_object()) {
    for (const auto& [name, value] : field->value().items()) {
      LOCKSTEP_TRY(const JsonField source, field->at(name));
      LOCKSTEP_TRY(templates[name], source.string());
    }
    return templates;
  }
  LOCKSTEP_TRY(const auto choices, field->elements());
  for (const JsonField& choice : choices) {
    LOCKSTEP_TRY(const std::string name, choice.string_or("name", ""));
    LOCKSTEP_TRY(const JsonField source, choice.at("template"));
    LOCKSTEP_TRY(templates[name], source.string());
  }
  return templates;
}

}  // namespace

std::string TokenizerSettings::text_of(std::string_view name) const {
  const auto entry = std::ranges::find(named, name, &SpecialToken::name);
  return entry == named.end() ? std::string() : entry->token.content;
}

std::vector<AddedToken> TokenizerSettings::added_tokens(const std::vector<AddedToken>& of_file) const {
  std::map<int64_t, AddedToken> by_id = listed;
  if (!lists_all) {
    for (const AddedToken& token : of_file) by_id[token.id] = token;
  }
  std::vector<AddedToken> all;
  if (tokenizer_class == nullptr) all = of_file;
  const size_t known = all.size();
  for (const auto& [id, token] : by_id) all.push_back(token);  // also those of the file again
  std::vector<AddedToken> missing;
  const auto add_missing = [&](const AddedToken& token) {  // a text once, an object each time
    const auto is_same = [&](const AddedToken& one) { return is_plain(one) && one.content == token.content; };
    if (contains(all, token.content) || (is_plain(token) && std::ranges::any_of(missing, is_same))) return;
    missing.push_back(token);
  };
  const std::vector<AddedToken> of_names = tokens_of(named);
  std::ranges::for_each(of_names, add_missing);
  std::ranges::for_each(extra, add_missing);
  std::ranges::move(missing, std::back_inserter(all));
  for (auto token = all.begin() + known; token != all.end(); ++token) {
    token->special = token->special || contains(of_names, token->content);
  }
  const bool resets_named = tokenizer_class != nullptr && tokenizer_class->resets_named;
  const bool resets_extra = tokenizer_class != nullptr && tokenizer_class->resets_extra;
  for (const SpecialToken& special : named) {
    if (resets_named) {
      all.push_back(plain_special(special.token.content));
    } else if (resets_extra && !is_usual(special.name)) {
      all.push_back(special.token);
    }
  }
  for (const AddedToken& token : extra) {
    if (resets_extra) all.push_back(plain_special(token.content));
  }
  return all;
}

Result<TokenizerSettings> read_tokenizer_settings(const std::filesystem::path& directory) {
  const auto path = directory / kTokenizerConfigFile;
  LOCKSTEP_TRY(const Document document, read_document(path));
  const JsonField config = document.root();
  TokenizerSettings settings;
  if (!gguf::is_inside(path)) {
    LOCKSTEP_TRY(const Document model, read_document(directory / "config.json"));
    LOCKSTEP_TRY(settings.tokenizer_class, choose_class(config, model.root(), directory));
  }
  const TokenizerClass* chosen = settings.tokenizer_class;
  FoundTokens found;
  if (chosen != nullptr) {
    const Document defaults(std::string(chosen->name), ordered_json::parse(chosen->default_tokens));
    LOCKSTEP_TRY_VOID(read_named(defaults, found.named, found.named));
    LOCKSTEP_TRY(settings.adds_prefix, config.boolean_or("add_prefix_space", chosen->adds_prefix));
    LOCKSTEP_TRY(settings.legacy, config.boolean_or("legacy", false));
  }
  LOCKSTEP_TRY(settings.splits_special_tokens, config.boolean_or("split_special_tokens", false));
  LOCKSTEP_TRY(settings.chat_templates, configured_templates(config));
  LOCKSTEP_TRY_VOID(read_config_tokens(document, found));
  if (const auto list = config.find("added_tokens_decoder")) {
    settings.lists_all = true;
    LOCKSTEP_TRY(settings.listed, listed_tokens(*list));
  } else {
    LOCKSTEP_TRY(const Document map, read_document(directory / kSpecialTokensFile));
    LOCKSTEP_TRY_VOID(read_map_tokens(map, found));
    LOCKSTEP_TRY(const Document older, read_document(directory / kAddedTokensFile));
    LOCKSTEP_TRY(settings.listed, older_tokens(older.root(), found));
  }
  Extra extra = found.extra ? std::move(found.extra) : std::move(found.older_extra);
  settings.named = std::move(found).named_in_order();
  if (extra) settings.extra = *std::move(extra);
  return settings;
}

}  // namespace lockstep::text
