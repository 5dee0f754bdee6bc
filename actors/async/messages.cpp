// Registers the control messages under their wire names, and turns CAF errors into codes and texts.
#include "actors/async/messages.hpp"

namespace troupe {

std::pair<Errc, std::string> from_caf(const caf::error& error) {
  if (error.category() == caf::atom("troupe")) {
    std::string text;
    if (error.context().match_elements<std::string>())
      text = error.context().get_as<std::string>(0);
    return {static_cast<Errc>(error.code()), text};
  }
  if (error == caf::sec::request_timeout) return {Errc::timeout, "no answer in time"};
  return {Errc::peer_lost, "the process is gone (" + caf::to_string(error) + ")"};
}

void add_control_messages(caf::actor_system_config& config) {
  config.add_message_type<InstallGraph>("InstallGraph")
      .add_message_type<InstallParts>("InstallParts")
      .add_message_type<PartsInstalled>("PartsInstalled")
      .add_message_type<ConnectParts>("ConnectParts")
      .add_message_type<Uninstall>("Uninstall")
      .add_message_type<Become>("Become")
      .add_message_type<Became>("Became")
      .add_message_type<BecomeOp>("BecomeOp")
      .add_message_type<DescribeOp>("DescribeOp")
      .add_message_type<OpDescription>("OpDescription")
      .add_message_type<FindService>("FindService")
      .add_message_type<Describe>("Describe")
      .add_message_type<Description>("Description")
      .add_message_type<CountEdges>("CountEdges")
      .add_message_type<EdgeCounts>("EdgeCounts")
      .add_message_type<AskWaits>("AskWaits")
      .add_message_type<Waits>("Waits")
      .add_message_type<ReadClock>("ReadClock")
      .add_message_type<ClockReading>("ClockReading")
      .add_message_type<Leave>("Leave")
      .add_message_type<Left>("Left")
      .add_message_type<SetTracing>("SetTracing")
      .add_message_type<TraceEvents>("TraceEvents")
      .add_message_type<DescribeDevice>("DescribeDevice")
      .add_message_type<DeviceDescription>("DeviceDescription");
}

}  // namespace troupe
