// Addresses as people write them: "host:port", "10.0.0.1:7000", "[::1]:7000".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};

// Throws: Error(bad_configuration) saying what is wrong and what is right.
HostPort parse_address(std::string_view address);
std::string format_address(std::string_view host, uint16_t port);  // brackets around an IPv6 host
// 127.0.0.0/8, ::1, or the name localhost.
bool is_loopback(std::string_view host);
bool is_loopback_address(std::string_view address);  // the same of the host in "host:port"
// 0.0.0.0, ::, and other ways to write them: any address of this machine, so none to be dialled.
bool is_wildcard(std::string_view host);

}  // namespace troupe
