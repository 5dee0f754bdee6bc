// Which costly nodes go to lanes, and when: a decision by numbers, so no lane runs here.
#include <doctest/doctest.h>

#include "actors/engine/lane_admission.hpp"
#include "devices/memory/heap_memory.hpp"

namespace troupe {
namespace {

using List = std::vector<uint32_t>;

// A step of `earliest.size()` nodes without inputs.
struct AdmissionRig {
  explicit AdmissionRig(std::vector<uint32_t> earliest) {
    const size_t count = earliest.size();
    program.nodes.firing = std::vector<FiringNode>(count);
    program.nodes.earliest = std::move(earliest);
    program.initial.values.resize(count);
    program.initial.missing.assign(count, 0);
    program.initial.uses.assign(count, 1);
    state = std::make_unique<StepState>(program, context);
    lanes = std::make_unique<LaneAdmission>(program);
    lanes->arm();
  }
  List take() {
    List out;
    for (const LaneAdmission::Job& job : lanes->batch()) out.push_back(job.firing.node);
    lanes->batch().clear();
    return out;
  }

  Firing at(uint32_t node) { return {state.get(), node}; }

  HeapMemory memory;
  StepContext context{memory, /*on_host=*/true};
  Program program;
  std::unique_ptr<StepState> state;
  std::unique_ptr<LaneAdmission> lanes;
};
TEST_CASE("a node that may fire at any time goes at once") {
  AdmissionRig rig({0, 0, 0});
  rig.lanes->admit(rig.at(2));
  rig.lanes->admit(rig.at(0));
  CHECK(!rig.lanes->waits());
  CHECK(rig.take() == List{2, 0});
  CHECK(rig.lanes->jobs() == 2);
  rig.lanes->job_ended(rig.at(0));
  CHECK(rig.lanes->jobs() == 1);
}

TEST_CASE("a node waits until the nodes before its turn have ended, and the first one never does") {
  AdmissionRig rig({0, 1, 2, 3});
  rig.lanes->admit(rig.at(3));
  rig.lanes->admit(rig.at(2));
  CHECK(rig.take().empty());
  rig.lanes->let_go();
  CHECK(rig.take() == List{2});
  REQUIRE(rig.lanes->waits());
  rig.lanes->let_go();
  CHECK(rig.take().empty());
  rig.lanes->job_ended(rig.at(2));
  rig.lanes->let_go();
  CHECK(rig.take() == List{3});
  CHECK(!rig.lanes->waits());
}

TEST_CASE("one node at a time goes ahead of its turn") {
  AdmissionRig rig({0, 1, 1, 1});
  for (uint32_t i : {3U, 1U, 2U}) rig.lanes->admit(rig.at(i));
  rig.lanes->let_go();
  CHECK(rig.take() == List{1, 2});
  rig.lanes->let_go();
  CHECK(rig.take().empty());
}

TEST_CASE("a node without memory fires again when a lane has ended, or else alone once") {
  AdmissionRig rig({0, 0, 0});
  CHECK(!rig.lanes->put_off(rig.at(1), false));  // nothing else holds memory
  rig.lanes->admit(rig.at(0));
  CHECK(rig.lanes->put_off(rig.at(2), false));
  CHECK(rig.lanes->put_off(rig.at(1), false));
  rig.lanes->job_ended(rig.at(0));
  CHECK(rig.lanes->take_put_off().node == 1);
  CHECK(rig.lanes->fire_alone().node == 2);
  CHECK(!rig.lanes->has_put_off());
  CHECK(!rig.lanes->put_off(rig.at(2), false));
}

TEST_CASE("a node without memory waits when more of its step is to run") {
  AdmissionRig rig({0, 0});
  CHECK(rig.lanes->put_off(rig.at(1), true));
  CHECK(rig.lanes->fire_alone().node == 1);
  CHECK(rig.lanes->put_off(rig.at(1), true));
}

TEST_CASE("nodes of an iteration stand where their loop stands") {
  AdmissionRig rig({0, 0, 0, 2});
  StepState iteration(rig.program, rig.context);
  iteration.site = {rig.at(1), 1, 0};
  rig.lanes->admit({&iteration, 0});
  rig.lanes->admit(rig.at(3));
  REQUIRE(rig.lanes->waits());
  rig.lanes->let_go();
  CHECK(rig.take() == List{0});
  rig.lanes->job_ended({&iteration, 0});
  rig.lanes->let_go();
  CHECK(rig.take() == List{3});
}

TEST_CASE("a step that stops begins no more jobs, and those on lanes still count") {
  AdmissionRig rig({0, 0, 2});
  rig.lanes->admit(rig.at(0));
  rig.take();
  rig.lanes->admit(rig.at(1));
  rig.lanes->admit(rig.at(2));
  rig.lanes->drop_all();
  CHECK(rig.lanes->batch().empty());
  CHECK(!rig.lanes->waits());
  CHECK(rig.lanes->jobs() == 1);
}

}  // namespace
}  // namespace troupe
