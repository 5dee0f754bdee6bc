// The order of events that made the bits of a slice, in bytes. A pull of a step has read the values
// between two updates; a push is an update by itself; a round is the update of a step by some
// replicas, or by none. An event of the first 16 replicas is one byte in the usual course.
// Owner: the caller. Thread: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

struct OrderEvent {
  enum Kind : uint8_t { pull, push, round } kind = pull;
  int64_t step = 0;
  int32_t replica = 0;                 // pull, push
  std::vector<int32_t> replicas = {};  // round: ascending
  friend bool operator==(const OrderEvent&, const OrderEvent&) = default;
};

class OrderWriter {
 public:
  void add(const OrderEvent& event);
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::exchange(bytes_, {}); }  // later ones continue them

 private:
  std::string bytes_;
  std::map<int32_t, int64_t> at_;  // by replica: the step of its newest event
  int64_t round_ = -1;             // the newest
};

class OrderReader {
 public:
  explicit OrderReader(std::string_view bytes)
      : rest_(bytes), size_(bytes.size()) {}  // live longer
  // False at the end. Throws: Error(bad_data) with the offset, for bytes that no writer makes.
  bool next(OrderEvent& event);

 private:
  uint64_t number();
  int64_t step_after(int64_t step);
  [[noreturn]] void refuse(const char* why) const;

  std::string_view rest_;
  size_t size_;
  std::map<int32_t, int64_t> at_;
  int64_t round_ = -1;
};

// LEB128, as the events are written.
void put_varint(std::string& out, uint64_t number);
// Takes one from the front of `bytes`; false, without effect, if there is none.
bool take_varint(std::string_view& bytes, uint64_t& number);

}  // namespace troupe
