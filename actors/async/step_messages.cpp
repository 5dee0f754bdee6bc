// The kinds of the data messages of steps, and their answers to a loss.
#include "actors/async/step_messages.hpp"

namespace troupe {

Deliver failed_form_of(const Deliver& m, const Loss& loss) {
  return {m.key, false, loss.code, loss.text, {}};
}
FinishStep refusal_of(const StartStep& m, const Loss& loss) {
  return {m.session, m.executable, m.run, loss.task, loss.code, loss.text, 0};
}

void add_step_messages(MessageKinds& kinds) {
  kinds.add<Deliver>(0, /*checked=*/true);  // first values of parameters are among them
  kinds.add<StartStep>(1);
  kinds.add<FinishStep>(2);
  kinds.add<CancelStep>(3);
}

}  // namespace troupe
