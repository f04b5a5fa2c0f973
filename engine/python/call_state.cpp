#include "engine/python/call_state.h"

namespace lockstep::python {

/// `clear` was not called where a stream was abandoned inside a callback.
CallState::~CallState() {
  if (owned_.empty() && !failure_.is_valid() && !listener_.is_valid()) return;
  const nb::gil_scoped_acquire acquired;
  clear();
}

void CallState::keep(nb::python_error& failure) {
  if (!failure_.is_valid()) failure_ = nb::borrow(failure.value());
}

void CallState::keep(const char* what) {
  if (failure_.is_valid()) return;
  PyErr_SetString(PyExc_RuntimeError, what);
  nb::python_error failure;
  keep(failure);
}

void CallState::set_listener(nb::object function) {
  listener_ = std::move(function);
  has_listener_ = true;
}

void CallState::add_token(StreamedToken token) {
  {
    std::lock_guard lock(mutex);
    tokens.push_back(std::move(token));
  }
  notify();
}

void CallState::add_done() {
  {
    std::lock_guard lock(mutex);
    ++done;
  }
  notify();
}

void CallState::notify() {
  changed.notify_all();
  if (!has_listener_) return;
  const nb::gil_scoped_acquire acquired;
  const ThreadMark mark(model_->listener_thread);
  const nb::object listener = listener_;
  if (!listener.is_valid()) return;
  try {
    listener();
  } catch (nb::python_error& failure) {
    failure.discard_as_unraisable("a lockstep stream");
  }
}

void CallState::release_objects(std::vector<nb::object>& released) {
  has_listener_ = false;
  for (nb::object& object : owned_) released.push_back(std::move(object));
  owned_.clear();
  if (listener_.is_valid()) released.push_back(std::move(listener_));
}

nb::object CallState::clear() {
  std::vector<nb::object> released;  // Python code that their destructors run may use this object
  release_objects(released);
  return std::move(failure_);
}

}  // namespace lockstep::python
