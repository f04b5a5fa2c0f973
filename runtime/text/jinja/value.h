// The values of a template: the part of Python's values used by chat templates.
//
// Lists, dictionaries and strings are immutable and shared. Only a namespace changes, and it cannot contain itself or a
// container of namespaces, so values form no cycles.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::jinja {

/// An error while a template runs. Thrown only inside this folder; `Template::render` turns it into an `Error` with the
/// line. Returning results from every helper would bury the interpreter in error handling.
class RenderFailure final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Value;
struct Arguments;

struct Undefined {
  std::string name;  // for the message when it is used
};
struct None {};
struct List;
struct Dict;
struct Namespace;
struct Callable;

class Value {
 public:
  using Storage = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                               std::shared_ptr<const Callable>>;

  Value() : storage_(None{}) {}
  Value(Undefined v) : storage_(std::move(v)) {}
  Value(bool v) : storage_(v) {}
  Value(int64_t v) : storage_(v) {}
  Value(double v) : storage_(v) {}
  Value(std::string v) : storage_(std::make_shared<const std::string>(std::move(v))) {}
  Value(std::string_view v) : Value(std::string(v)) {}
  Value(const char* v) : Value(std::string(v)) {}
  Value(List v);
  Value(Dict v);
  Value(std::shared_ptr<Namespace> v) : storage_(std::move(v)) {}
  Value(Callable v);

  bool is_undefined() const { return std::holds_alternative<Undefined>(storage_); }
  bool is_none() const { return std::holds_alternative<None>(storage_); }
  const bool* boolean() const { return std::get_if<bool>(&storage_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&storage_); }
  const double* real() const { return std::get_if<double>(&storage_); }
  const std::string* string() const { return pointee<const std::string>(); }
  const List* list() const { return pointee<const List>(); }
  const Dict* dict() const { return pointee<const Dict>(); }
  Namespace* name_space() const { return pointee<Namespace>(); }
  const Callable* callable() const { return pointee<const Callable>(); }
  const Undefined* undefined() const { return std::get_if<Undefined>(&storage_); }

 private:
  template <typename T>
  T* pointee() const {
    const auto* held = std::get_if<std::shared_ptr<T>>(&storage_);
    return held == nullptr ? nullptr : held->get();
  }

  Storage storage_;
};

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 0;  // nesting depth of lists and dictionaries; set when it becomes a value
};

/// Keeps insertion order, like Python.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  int depth = 0;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
};

struct Namespace {
  Dict members;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at `index` or with the name `name`; null when there is neither.
  const Value* find(size_t index, std::string_view name) const;
};

struct Callable {
  std::string name;
  std::function<Value(const Arguments&)> call;
};

/// Python's type name, for messages.
std::string_view type_name(const Value& value);
bool truthy(const Value& value);
bool equal(const Value& a, const Value& b);
/// Negative, 0 or positive; throws `RenderFailure` when the two have no order.
int compare(const Value& a, const Value& b);
bool contains(const Value& container, const Value& item);
/// str(value) of Python; "" for undefined.
std::string to_text(const Value& value);
/// repr(value) of Python.
std::string to_repr(const Value& value);
std::string float_repr(double value);
/// The elements visited by a loop; throws for values without elements.
std::vector<Value> items_of(const Value& value);
/// len(value); throws for values without a length.
int64_t length_of(const Value& value);
/// Returns `value`; throws `RenderFailure` when it is undefined.
const Value& defined(const Value& value);
/// The number in a bool, int or float; returns false for other types.
bool as_number(const Value& value, double& number);
/// The number in a bool or int; returns false for other types.
bool as_integer(const Value& value, int64_t& number);

}  // namespace lockstep::jinja
