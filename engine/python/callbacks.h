// Python functions as the processors, criteria and allowed tokens of a request.
#pragma once

#include <memory>

#include "engine/python/call_state.h"
#include "lockstep/engine.h"

namespace lockstep::python {

/// The functions of one call, wrapped by lockstep/callbacks.py. None: the call has none.
struct Callbacks {
  nb::object process;  // (ids i64 [rows, n], scores f32 [rows, V]) → scores f32 [rows, V]
  nb::object is_met;   // (ids i64 [1, n], scores f32 [1, V]) → bool
  nb::object allowed;  // (index of the prompt, ids i64 [n]) → list of ids
};

/// Adds the functions to the request of prompt `index`. `state` owns them. With the GIL.
void add_callbacks(Request& request, const Callbacks& callbacks, int64_t index,
                   const std::shared_ptr<CallState>& state);

}  // namespace lockstep::python
