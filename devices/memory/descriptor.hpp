// Descriptor: a file descriptor that is closed with its owner.
// Owner: its holder. Thread: any.
#pragma once

#include <unistd.h>

#include <utility>

namespace troupe {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }  // -1: none

 private:
  int number_ = -1;
};

}  // namespace troupe
