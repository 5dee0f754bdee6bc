// Local sockets: Unix stream sockets between processes of one user on one machine, beside a TCP
// address. Their names are abstract: they belong to the network namespace, as ports do, and end
// with their last descriptor. Every user can connect to such a name or take it first, so each side
// asks the kernel for the other's user.
//
// Owner: the caller owns the descriptors. Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

// 0: links stay on TCP; bytes: links within a machine leave it; 1, or not set: large tensors on
// them are read in place, too.
inline constexpr const char* kLocalSocketsVariable = "TROUPE_LOCAL_SOCKETS";
enum class LocalSockets : uint8_t { off, bytes, in_place };
// Throws: Error(bad_configuration) for another value of the variable.
LocalSockets local_sockets();

// A socket that listens beside "host:port", whose host is in digits; or -1, with the reason.
int local_listener(const std::string& address, std::string& why);
// A connection to the process that listens beside "host:port"; or -1, with the reason. It is empty
// if the address may be that of another machine.
int local_dial(const std::string& address, std::string& why);
// True if the process at the other end has this user.
bool is_same_user(int socket);

}  // namespace troupe
