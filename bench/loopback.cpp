// The loop of calls: one thread writes blocks, another one reads them.
#include "bench/loopback.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "bench/bench.hpp"
#include "troupe/error.hpp"

namespace troupe::bench {

double raw_bytes_per_second(int64_t block, int blocks) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw Error(Errc::io, "no loopback socket");
  std::thread reader([&] {
    const int fd = accept(listener, nullptr, nullptr);
    std::vector<char> buffer(static_cast<size_t>(block));
    for (int b = 0; b < blocks; ++b) {
      for (size_t got = 0; got < buffer.size();) {
        const ssize_t n = read(fd, buffer.data() + got, buffer.size() - got);
        if (n <= 0) return;
        got += static_cast<size_t>(n);
      }
      if (write(fd, "k", 1) != 1) return;
    }
    close(fd);
  });
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    throw Error(Errc::io, "no loopback connection");
  std::vector<char> buffer(static_cast<size_t>(block), 1);
  const auto begin = std::chrono::steady_clock::now();
  for (int b = 0; b < blocks; ++b) {
    for (size_t put = 0; put < buffer.size();) {
      const ssize_t n = write(fd, buffer.data() + put, buffer.size() - put);
      if (n <= 0) throw Error(Errc::io, "loopback connection broke");
      put += static_cast<size_t>(n);
    }
    char answer = 0;
    if (read(fd, &answer, 1) != 1) throw Error(Errc::io, "loopback connection broke");
  }
  const double seconds = seconds_since(begin);
  reader.join();
  close(fd);
  close(listener);
  return static_cast<double>(block) * blocks / seconds;
}

}  // namespace troupe::bench
