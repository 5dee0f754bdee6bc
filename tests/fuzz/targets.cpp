// The list of targets, and their files in memory.
#include "tests/fuzz/targets.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace troupe::fuzz {

std::vector<Target> all_targets() {
  return {addresses_target(),   basp_target(),        cluster_spec_target(), codec_target(),
          csv_target(),         example_target(),     flags_target(),        frames_target(),
          graph_proto_target(), graph_text_target(),  greeting_target(),     idx_target(),
          images_target(),      manifest_target(),    npy_target(),          npz_target(),
          records_target(),     safetensors_target(), source_target()};
}

void run(const Target& target, std::string_view bytes) {
  try {
    target.run(bytes);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    if (e.code() == Errc::internal) throw;
  }
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

MemoryFile::MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
  path_ = "/proc/self/fd/" + std::to_string(fd_);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(fd_, bytes.data() + at, bytes.size() - at);
    if (n <= 0) throw Error(Errc::io, "no memory for a file");
    at += static_cast<size_t>(n);
  }
}

MemoryFile::~MemoryFile() { ::close(fd_); }

std::string MemoryFile::read() const {
  std::string out(static_cast<size_t>(::lseek(fd_, 0, SEEK_END)), '\0');
  const ssize_t n = ::pread(fd_, out.data(), out.size(), 0);
  out.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return out;
}

}  // namespace troupe::fuzz
