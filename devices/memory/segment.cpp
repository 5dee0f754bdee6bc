// Makes, seals and maps segments.
#include "devices/memory/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "troupe/error.hpp"

namespace troupe {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

std::string failed(const char* act) { return detail::concat(act, ": ", std::strerror(errno)); }

}  // namespace

Mapping::~Mapping() { ::munmap(address_, static_cast<size_t>(bytes_)); }

std::unique_ptr<const Segment> Segment::make(int64_t bytes, std::string& why) {
  constexpr unsigned kNoExec = 8;  // MFD_NOEXEC_SEAL, of Linux 6.3; a system may insist on it
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor descriptor(::memfd_create("troupe tensors", kFlags | kNoExec));
  if (descriptor.number() < 0 && errno == EINVAL)
    descriptor = Descriptor(::memfd_create("troupe tensors", kFlags));
  if (descriptor.number() < 0) return why = failed("memfd_create"), nullptr;
  if (::ftruncate(descriptor.number(), bytes) != 0) return why = failed("ftruncate"), nullptr;
  // Without its pages a full machine would show in a signal, later.
  int error;
  do {
    error = ::posix_fallocate(descriptor.number(), 0, bytes);
  } while (error == EINTR);
  if (error != 0) return errno = error, why = failed("fallocate"), nullptr;
  void* const at = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_POPULATE, descriptor.number(), 0);
  if (at == MAP_FAILED) return why = failed("mmap"), nullptr;
  auto mapping = std::make_unique<const Mapping>(at, bytes);
  ::madvise(at, static_cast<size_t>(bytes), MADV_DONTFORK);  // a child would count references, too
  // After the mapping: this seal stops all later ones for writing.
  if (::fcntl(descriptor.number(), F_ADD_SEALS, kSeals) != 0)
    return why = failed("F_ADD_SEALS"), nullptr;
  return std::make_unique<const Segment>(Segment{std::move(descriptor), std::move(mapping)});
}

std::shared_ptr<const Mapping> map_segment(const Descriptor& descriptor, int64_t bytes,
                                           std::string& why, bool& is_bad) {
  is_bad = true;
  struct stat file {};
  const int seals = ::fcntl(descriptor.number(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return why = "it is not sealed", nullptr;
  if (::fstat(descriptor.number(), &file) != 0) return why = failed("fstat"), nullptr;
  if (bytes <= 0 || file.st_size != bytes)
    return why = detail::concat("it has ", file.st_size, " bytes, and not ", bytes), nullptr;
  if (file.st_blocks * 512 < bytes) return why = "not all of its pages exist", nullptr;
  is_bad = false;
  void* const at = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_SHARED | MAP_POPULATE,
                          descriptor.number(), 0);
  if (at == MAP_FAILED) return why = failed("mmap"), nullptr;
  return std::make_shared<const Mapping>(at, bytes);
}

}  // namespace troupe
