// Registers the messages of control.
#include "training/control/messages.hpp"

#include <caf/actor_system_config.hpp>

namespace troupe {

void add_training_messages(caf::actor_system_config& config) {
  config.add_message_type<AskTraining>("AskTraining")
      .add_message_type<TrainingTold>("TrainingTold")
      .add_message_type<AskLedger>("AskLedger")
      .add_message_type<LedgerTold>("LedgerTold")
      .add_message_type<ChangeTerms>("ChangeTerms")
      .add_message_type<TermsTaken>("TermsTaken");
}

}  // namespace troupe
