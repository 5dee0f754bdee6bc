// Parses and formats host:port addresses.
#include "net/wire/address.hpp"

#include <algorithm>
#include <charconv>

#include "troupe/error.hpp"

namespace troupe {
namespace {

template <class... Parts>
Error bad_address(std::string_view address, const Parts&... why) {
  return Error(Errc::bad_configuration, "\"", address, "\" is no address: ", detail::concat(why...),
               "; write host:port, like 127.0.0.1:7000 or [::1]:7000");
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

}  // namespace

bool is_good_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameMax &&
         std::all_of(name.begin(), name.end(), is_name_char);
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

HostPort parse_address(std::string_view address) {
  HostPort out;
  std::string_view port;
  if (address.starts_with('[')) {
    const size_t end = address.find(']');
    if (end == address.npos) throw bad_address(address, "the bracket is not closed");
    out.host = std::string(address.substr(1, end - 1));
    const bool good = !out.host.empty() && out.host.find(':') != out.host.npos &&
                      std::all_of(out.host.begin(), out.host.end(), [](char c) {
                        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
                               (c >= 'A' && c <= 'F') || c == ':' || c == '.';
                      });
    if (!good) throw bad_address(address, "between the brackets there is no IPv6 address");
    if (end + 1 >= address.size() || address[end + 1] != ':')
      throw bad_address(address, "there is no port");
    port = address.substr(end + 2);
  } else {
    const size_t colon = address.rfind(':');
    if (colon == address.npos) throw bad_address(address, "there is no port");
    if (address.find(':') != colon) throw bad_address(address, "an IPv6 address wants brackets");
    out.host = std::string(address.substr(0, colon));
    if (out.host.empty()) throw bad_address(address, "there is no host");
    if (!std::all_of(out.host.begin(), out.host.end(), is_name_char))
      throw bad_address(address, "a host is letters, digits, dots and dashes");
    port = address.substr(colon + 1);
  }
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size() || number > 65535)
    throw bad_address(address, "the port is not a number from 0 to 65535");
  out.port = static_cast<uint16_t>(number);
  return out;
}

std::string format_address(std::string_view host, uint16_t port) {
  return host.find(':') == host.npos ? detail::concat(host, ":", port)
                                     : detail::concat("[", host, "]:", port);
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  if (!host.starts_with("127.")) return false;
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

bool is_loopback_address(std::string_view address) {
  std::string_view host = address.substr(0, address.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return is_loopback(host);
}

bool is_wildcard(std::string_view host) {
  return !host.empty() && host.find_first_not_of("0.:") == host.npos;
}

}  // namespace troupe
