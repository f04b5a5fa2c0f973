// Groups of ranks on the backend for GPUs, over the stand-in of its driver.
#pragma once

#include <filesystem>

#include "tests/model/model_group.h"

namespace lockstep::model {

/// LOCKSTEP_GOLDENS, where the sources are not at hand.
std::filesystem::path goldens_folder();

/// `options` for ranks that share the stand-in's GPU.
GroupOptions on_stand_in(GroupOptions options);

}  // namespace lockstep::model
