// The folder of a process's certificates, as its options name it.
// Owner: none, functions only. Thread: any; they block.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace troupe {

class TlsFiles;  // net/link/tls.hpp

// The variable that names the folder.
inline constexpr const char* kTlsVariable = "TROUPE_TLS_DIR";
// The certificates of `folder`, or of the one that the variable names; null if neither is given.
// `task`: -1 if it is not known yet. Throws: as TlsFiles(); Error(bad_configuration) for a
// certificate that is not this process's.
std::shared_ptr<TlsFiles> read_tls(const std::string& folder, const std::string& cluster,
                                   const std::string& job, int32_t task);

}  // namespace troupe
