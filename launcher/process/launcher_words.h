// The words of a command that starts ranks, such as "mpirun -n {ranks} --bind-to core" or
// "srun -n {ranks} --exclude={lost_hosts}". Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// The words of `text`: split at blanks; '…' is literal, "…" is literal except for backslashes before ", \, $ and `,
/// and a backslash takes the next character as it is. Nothing is expanded. Fails with `kInvalidArgument`, naming
/// `option`, for a quote that is not closed.
Result<std::vector<std::string>> split_words(std::string_view text, std::string_view option);

/// Whether one of `words` contains {ranks}.
bool name_ranks(const std::vector<std::string>& words);

/// Whether one of `words` contains {lost_hosts}.
bool name_lost_hosts(const std::vector<std::string>& words);

/// `words` with the number in place of each {ranks}, and the hosts in place of each {lost_hosts}, with commas between
/// them. A word with {lost_hosts} is left out while there are none.
std::vector<std::string> with_ranks(std::vector<std::string> words, int ranks,
                                    const std::set<std::string>& lost_hosts = {});

}  // namespace lockstep::launcher
