// The state of one call's requests, shared by the caller's thread and the engine's threads.
//
//   engine's threads                                  the caller's thread
//   a step's logits ─► processors, criteria ┐
//   a token ─► tokens ──────────────────────┼─► changed ─► PendingRequests::next_token, wait_done, answers
//   the end of a request ─► done ───────────┘
//
// The GIL is never awaited under the mutex, so a thread that holds the GIL may take the mutex.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/engine.h"

namespace lockstep::python {

namespace nb = nanobind;

/// A token on its way to the caller.
struct StreamedToken {
  size_t index = 0;           // of the answer
  std::optional<int32_t> id;  // none: only text
  std::string text;
};

/// A call that the end of its model ends.
class CancellableCall {
 public:
  virtual ~CancellableCall() = default;
  /// Without the GIL, on any thread.
  virtual void cancel_requests() = 0;
  /// Moves the Python objects that callbacks use to `released`; there are no more callbacks. With the GIL.
  virtual void release_objects(std::vector<nb::object>& released) = 0;
};

/// What the calls of one open model share.
class ModelState {
 public:
  std::atomic<std::thread::id> callback_thread;  // runs a processor or criterion now
  std::atomic<std::thread::id> listener_thread;  // runs a listener now
  std::atomic<bool> is_disowned = false;         // the process leaves the engine as it is
  std::atomic<bool> is_fork = false;             // the process is a fork: the engine's threads do not exist

  /// Whether the calling thread runs Python code that the engine waits for.
  bool is_inside_callback() const {
    const std::thread::id self = std::this_thread::get_id();
    return callback_thread == self || listener_thread == self;
  }

  void add(CancellableCall& call) {
    const std::unique_lock lock = locked();
    calls_.insert(&call);
  }
  void remove(CancellableCall& call) {
    const std::unique_lock lock = locked();
    calls_.erase(&call);
  }
  void cancel_calls() {
    const std::unique_lock lock = locked();
    for (CancellableCall* call : calls_) call->cancel_requests();
  }
  /// The Python objects of all calls, after their end: a function may refer to the stream whose call owns it, which
  /// Python's collector does not see. With the GIL.
  std::vector<nb::object> release_objects() {
    std::vector<nb::object> released;
    const std::unique_lock lock = locked();
    for (CancellableCall* call : calls_) call->release_objects(released);
    return released;
  }

 private:
  /// A fork has one thread, and the mutex as another thread of its parent left it.
  std::unique_lock<std::mutex> locked() { return is_fork ? std::unique_lock<std::mutex>() : std::unique_lock(mutex_); }

  std::mutex mutex_;  // guards the calls, which remove themselves
  std::set<CancellableCall*> calls_;
};

/// Keeps the calling thread known to Python until the thread ends. Otherwise each callback makes and frees a state of
/// the thread, with memory of the system for its frames. Made with or without the GIL. A model ends its threads before
/// the interpreter ends.
class PythonThread {
 public:
  PythonThread() : ensured_(PyGILState_Ensure()), state_(PyEval_SaveThread()) {}
  ~PythonThread() {
    PyEval_RestoreThread(state_);
    PyGILState_Release(ensured_);
  }
  PythonThread(const PythonThread&) = delete;
  PythonThread& operator=(const PythonThread&) = delete;

 private:
  PyGILState_STATE ensured_;
  PyThreadState* state_;
};

/// Owns the Python objects that the requests of one call use.
class CallState {
 public:
  explicit CallState(std::shared_ptr<ModelState> model) : model_(std::move(model)) {}
  ~CallState();
  CallState(const CallState&) = delete;
  CallState& operator=(const CallState&) = delete;

  ModelState& model() const { return *model_; }

  /// Runs `work`, which calls Python, on an engine's thread. A Python exception is kept for the caller, and fails the
  /// request by a C++ exception.
  template <typename Work>
  auto call_python(Work&& work) {
    static thread_local const PythonThread kThread;
    const nb::gil_scoped_acquire acquired;
    const ThreadMark mark(model_->callback_thread);
    try {
      return work();
    } catch (nb::python_error& failure) {
      keep(failure);
    } catch (const std::exception& failure) {
      keep(failure.what());
    }
    throw std::runtime_error("a callback of the request raised an exception");
  }

  /// Keeps `function` until `clear`. With the GIL.
  nb::handle own(nb::object function) { return owned_.emplace_back(std::move(function)); }

  void add_token(StreamedToken token);
  void add_done();
  /// `function` is called, without arguments and on the delivery thread, when tokens or ends are added. With the GIL.
  void set_listener(nb::object function);
  /// Moves the functions to `released`, after the requests are done. With the GIL.
  void release_objects(std::vector<nb::object>& released);
  /// Releases the Python objects, after the requests are done, so that they may refer to the call. Returns the
  /// exception of a callback, if there was one. With the GIL.
  nb::object clear();

  std::mutex mutex;  // guards the three below
  std::condition_variable changed;
  std::deque<StreamedToken> tokens;
  size_t done = 0;  // requests

 private:
  struct ThreadMark {
    explicit ThreadMark(std::atomic<std::thread::id>& marked) : thread(marked) { thread = std::this_thread::get_id(); }
    ~ThreadMark() { thread = std::thread::id(); }
    std::atomic<std::thread::id>& thread;
  };

  void keep(nb::python_error& failure);
  void keep(const char* what);
  void notify();

  std::shared_ptr<ModelState> model_;
  // Guarded by the GIL.
  std::vector<nb::object> owned_;
  nb::object failure_;  // the first exception of a callback
  nb::object listener_;
  std::atomic<bool> has_listener_ = false;
};

}  // namespace lockstep::python
