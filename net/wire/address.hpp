// Addresses in the notation of users: "host:port", "10.0.0.1:7000", "[::1]:7000"; and names of
// clusters and jobs.
// Owner: none, functions only. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

inline constexpr size_t kNameMax = 63;  // cluster and job names
inline constexpr size_t kAddressMax = 127;

// True for 1 to kNameMax letters, digits, _ - and .
bool is_good_name(std::string_view name);
// True for a text of ASCII without control characters, which cannot forge a line of a log.
bool is_printable(std::string_view text);

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};

// Throws: Error(bad_configuration) with the fault and the right form.
HostPort parse_address(std::string_view address);
std::string format_address(std::string_view host, uint16_t port);  // an IPv6 host gets brackets
// True for 127.0.0.0/8, ::1 and the name localhost.
bool is_loopback(std::string_view host);
bool is_loopback_address(std::string_view address);  // is_loopback() of the host in "host:port"
// True for 0.0.0.0, :: and their other spellings: they mean any address of this machine, so they
// cannot be dialled.
bool is_wildcard(std::string_view host);

}  // namespace troupe
