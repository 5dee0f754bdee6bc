// The sources of a process. The actor `input` owns one actor for each source, session and replica,
// makes it at the first request, and makes it again at the next one after it has ended. A session
// asks the actors `input` of all processes if its sources are still being read.
//
// Owner: the services of the process. Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/cluster/process.hpp"
#include "data/files_under.hpp"
#include "data/source/step_reader.hpp"
#include "devices/input_port.hpp"

namespace troupe {

// A reply that is given once: if nobody gives it, when it is destroyed.
class InputReply {
 public:
  explicit InputReply(InputPort::Reply reply) : reply_(std::move(reply)) {}
  ~InputReply();
  InputReply(const InputReply&) = delete;
  void give(Errc code, std::string text, std::vector<Tensor> record);

 private:
  InputPort::Reply reply_;  // empty once it is given
};

// kernel -> input -> source: asks for one step of a source. It does not leave the process.
struct ReadStep {
  uint64_t session = 0;
  InputRequest request;
  std::shared_ptr<InputReply> reply;
};
// process -> input: the session is over; its sources end.
struct ForgetSources {
  uint64_t session = 0;
};

// any -> input: how long ago has a source that a read of the session waits for moved? Answered by
// SourceMoved.
struct AskMoved {
  uint64_t session = 0;
};
struct SourceMoved {
  int64_t ms = -1;  // since then, of the source that moved last; -1: no read waits
};
template <class I>
auto inspect(I& f, AskMoved& x) {
  return f(x.session);
}
template <class I>
auto inspect(I& f, SourceMoved& x) {
  return f(x.ms);
}
void add_input_messages(caf::actor_system_config& config);

using SourceActor = caf::typed_actor<caf::reacts_to<ReadStep>>;
using InputService = caf::typed_actor<caf::reacts_to<ReadStep>, caf::reacts_to<ForgetSources>,
                                      caf::replies_to<AskMoved>::with<SourceMoved>>;

// The readers of a process. A reader whose actor has ended stays until its threads have, so that no
// lane waits for them.
class Readers {
 public:
  void add(uint64_t session, std::shared_ptr<StepReader> reader, std::string name);
  std::string waiting() const;  // the reads that wait, for the report of a stalled step
  SourceMoved moved(uint64_t session) const;

 private:
  struct Entry {
    uint64_t session;
    std::shared_ptr<StepReader> reader;
    std::string name;
  };
  std::vector<Entry> entries() const;

  mutable std::mutex mutex_;  // guards the rest
  std::vector<Entry> entries_;
};

class Inputs;

// The sources of one session, as kernels reach them.
class SessionInput final : public InputPort {
 public:
  SessionInput(Inputs& inputs, uint64_t session) : inputs_(inputs), session_(session) {}
  void read(const InputRequest& request, Reply reply) override;

 private:
  Inputs& inputs_;
  const uint64_t session_;
};

// The sources of a process as its services see them.
class Inputs {
 public:
  // Throws: Error(bad_configuration) for a data folder of the process that is not there.
  explicit Inputs(Process& process);
  // Valid until the process ends, as a kernel of a step that is ending may still hold it.
  InputPort* port(uint64_t session);
  void forget(uint64_t session);
  void stop();
  caf::actor actor() const;
  std::string waiting_for() const { return readers_->waiting(); }
  // Sends a request to the actor `input`, which is made anew if it has ended. Reads of a session
  // that has ended, of steps that are ending, are cancelled.
  void read(ReadStep step);

 private:
  struct Port {
    std::unique_ptr<SessionInput> input;
    bool ended = false;
  };

  Process& process_;
  const std::shared_ptr<const Files> files_;  // that sources may read
  const std::shared_ptr<Readers> readers_;
  mutable std::mutex mutex_;  // guards the rest
  InputService service_;
  bool stopped_ = false;
  std::map<uint64_t, Port> ports_;
};

// Names the first files of a source for messages.
std::string source_name(const SourceSpec& spec);

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ReadStep)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ForgetSources)
