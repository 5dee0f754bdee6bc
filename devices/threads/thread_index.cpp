// The assignment of indices to threads.
#include "devices/threads/thread_index.hpp"

#include <bit>
#include <mutex>

namespace troupe {
namespace {

static_assert(kThreadIndices == 64, "a bit each");

std::mutex& slots_mutex() {
  static auto* const mutex = new std::mutex;  // threads may end after static objects have
  return *mutex;
}
uint64_t taken_slots = 0;   // requires slots_mutex()
unsigned drawn_beyond = 0;  // the same: number of threads that found none free

// Gives the index back when its thread ends.
struct Holder {
  int bit = 0;
  bool ours = false;
  Holder() {
    std::lock_guard lock(slots_mutex());
    ours = ~taken_slots != 0;
    bit = ours ? std::countr_one(taken_slots) : static_cast<int>(drawn_beyond++ % kThreadIndices);
    if (ours) taken_slots |= uint64_t{1} << bit;
  }
  // Even positions first: a core that fetches a cache line may fetch its neighbour, too.
  int slot() const { return bit * 2 % kThreadIndices + bit * 2 / kThreadIndices; }
  ~Holder() {
    detail::thread_index_of_mine = 0;  // thread-local objects destroyed after this share an index
    if (!ours) return;
    std::lock_guard lock(slots_mutex());
    taken_slots &= ~(uint64_t{1} << bit);
  }
};

}  // namespace

namespace detail {

int draw_thread_index() {
  static thread_local const Holder mine;
  return thread_index_of_mine = mine.slot();
}

}  // namespace detail
}  // namespace troupe
