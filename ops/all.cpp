// builtin_ops: every op of the project, named once, sorted. A list and not a side effect, so that no linker drops one and
// everybody can read it.
#include "ops/all.hpp"

namespace troupe {

std::shared_ptr<const Registry> builtin_ops() {
  static const std::shared_ptr<const Registry> all = [] {
    auto registry = std::make_shared<Registry>();
    for (Op (*op)() : std::initializer_list<Op (*)()>{
         })
      registry->add(op());
    return registry;
  }();
  return all;
}

}  // namespace troupe
