// BorrowedTensors: the tensors that this process reads in place in segments of a link's peer. They
// cannot be written. The last handle of one gives its loan back.
// Owner: the link. Thread: the net thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devices/memory/segment.hpp"
#include "net/link/given_back.hpp"
#include "net/link/lent_tensors.hpp"
#include "net/wire/codec.hpp"

namespace troupe {

class BorrowedTensors {
 public:
  // A descriptor has arrived; its message follows. Returns false if too many wait for theirs.
  bool arrived(Descriptor descriptor);

  struct Outcome {
    Tensor tensor = {};
    Errc code = Errc::ok;  // bad_data: the peer does not keep to the protocol; out_of_memory
    std::string why = {};  // unless ok
  };
  // The tensor of a claim, which lies at `place`.
  Outcome borrow(const LoanPlace& place, const TensorClaim& claim);
  // The peer has segments no longer. Returns false for one that it had not told.
  bool forget(std::span<const uint64_t> segments);
  const std::shared_ptr<GivenBack>& given_back() const { return given_back_; }

 private:
  struct Known {
    int64_t bytes = 0;
    Descriptor descriptor;                   // while it is not mapped
    std::shared_ptr<const Mapping> mapping;  // tensors share it
  };

  std::deque<Descriptor> waiting_;
  std::map<uint64_t, Known> known_;
  const std::shared_ptr<GivenBack> given_back_ = std::make_shared<GivenBack>();
};

}  // namespace troupe
