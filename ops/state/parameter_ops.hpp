// Shared by the ops that send requests to a parameter's shards: the request's identity, the wait
// for the answer, and the building of a push.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devices/run_context.hpp"
#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "graph/optimizer.hpp"
#include "ops/support/node.hpp"
#include "ops/support/refused.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {

// Returns null if the run has no parameter port; then the firing has failed.
inline ParameterPort* port_of(AsyncContext& ctx) {
  ParameterPort* port = ctx.run().parameters;
  if (!port)
    ctx.fail(Errc::invalid_argument, describe(ctx.node()) +
                                         ": this run has no parameter shards; "
                                         "run the graph through a Session");
  return port;
}

// The parts of ParameterUse that all ops of parameters have in common.
inline const std::string& parameter_of(const Node& node) {
  return node.attr<std::string>("parameter");
}
inline const std::string& optimizer_of(const Node& node) {
  return node.attr<std::string>("optimizer");
}
inline constexpr OpProperties kPushes = {.parameter = {.kind = ParameterUse::pushes,
                                                       .parameter = parameter_of,
                                                       .optimizer = optimizer_of}};

inline const std::string& parameter_of(const AsyncContext& ctx) { return parameter_of(ctx.node()); }

inline ParameterStep step_of(const AsyncContext& ctx) {
  return {ctx.node().attr<int64_t>("replica"), ctx.run().step, ctx.run().first_step,
          ctx.run().fence};
}

// The reply of an op without outputs, which completes when the shards have acknowledged its
// request.
inline ParameterPort::Reply acknowledged(std::shared_ptr<AsyncContext> ctx) {
  return [ctx = std::move(ctx)](Errc code, std::string text, Tensor) {
    if (code != Errc::ok) return ctx->fail(code, describe(ctx->node()) + ": " + text);
    ctx->done({});
  };
}

// The indices as i64, from any integer dtype.
inline Tensor as_i64(const Tensor& indices) {
  if (indices.dtype() == DType::i64) return indices;
  Tensor out = Tensor::empty(DType::i64, indices.shape());
  std::copy_n(indices.data<int32_t>(), indices.size(), out.mutable_data<int64_t>());
  return out;
}

// The node behind an output of parameter(). Throws: Error(invalid_argument), as `op` made at `at`.
inline const Node& parameter_node(const char* op, Output parameter, Origin at) {
  if (!parameter.defined())
    throw refused(op, at, "its parameter is an undefined Output; pass what parameter() returned");
  const Node& node = parameter.graph->node(parameter.node);
  if (node.op->name != "Parameter")
    throw refused(op, at, "wants what parameter() returned, got the ", describe(node));
  return node;
}

// The node of a parameter that is pushed to. Throws: Error(invalid_argument), as `op` made at `at`,
// if `gradient` cannot be its gradient.
inline const Node& trained_node(const char* op, Output parameter, Output gradient, Origin at) {
  const Node& node = parameter_node(op, parameter, at);
  if (!gradient.defined())
    throw refused(op, at, "its gradient is an undefined Output; pass the result of an op");
  if (gradient.dtype() != parameter.dtype() || !gradient.shape().accepts(parameter.shape()))
    throw refused(op, at, "the gradient is ", TensorType{gradient.dtype(), gradient.shape()},
                  ", but the parameter ", node.attr<std::string>("parameter"), " is ",
                  node.outputs[0]);
  return node;
}

// Throws: Error(invalid_argument), as `op` made at `at`, if the gradient of all elements cannot be
// pushed.
inline void require_no_table(const char* op, const Node& parameter, Origin at) {
  if (!parameter.attr<std::string>("touched_rows").empty())
    throw refused(op, at, "parameter ", parameter.attr<std::string>("parameter"),
                  " is a table whose rows are made on first touch, and the gradient is of all its "
                  "elements; read it by gather() alone, and train it by minimize() or "
                  "apply_gradients(), which push the gathered rows");
}

// For infer_shapes of a push.
inline void check_optimizer_text(const InferContext& ctx) {
  try {
    optimizer_from_text(ctx.attr<std::string>("optimizer"));
  } catch (const Error& e) {  // it does not name the node
    throw ctx.error(e.what());
  }
}

inline std::vector<AttrSpec> push_attrs() {
  return {{"parameter", AttrKind::text},
          {"replica", AttrKind::integer, int64_t{0}},
          {"optimizer", AttrKind::text, describe(Optimizer{})}};
}

inline bool inside_loop(const Graph& graph) {
  for (int32_t frame = current_frame(graph); frame >= 0; frame = graph.node(frame).frame)
    if (graph.node(frame).op->control == ControlKind::loop) return true;
  return false;
}

inline Output add_push(const char* op, const Node& parameter, std::vector<Output> inputs,
                       const Optimizer& optimizer, const std::vector<int32_t>& control_inputs,
                       Origin at) {
  if (inside_loop(*inputs.back().graph))
    throw Error(Errc::invalid_argument, op, " made at ", at.file, ":", at.line,
                ": it is inside a loop, but parameter ", parameter.attr<std::string>("parameter"),
                " is pushed to once a step; let the loop add up the gradients and return their "
                "sum, and push that");
  return add_node({.op = op,
                   .inputs = std::move(inputs),
                   .attrs = {{"parameter", parameter.attr<std::string>("parameter")},
                             {"replica", parameter.attr<int64_t>("replica")},
                             {"optimizer", describe(optimizer)}},
                   .control_inputs = control_inputs},
                  at);
}

inline std::vector<DType> no_dtypes(const InferContext&) { return {}; }

// An op that sends a request to the shards and completes when they have acknowledged it.
inline Op request_op(std::string name, std::vector<std::string> inputs, std::vector<AttrSpec> attrs,
                     std::vector<Shape> (*infer_shapes)(const InferContext&),
                     void (*start)(std::shared_ptr<AsyncContext>), const OpProperties& properties) {
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .attrs = std::move(attrs),
          .infer_dtypes = no_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no outputs",
          .kernels = {{DeviceKind::cpu, DType::none, nullptr, start}},
          .stateful = true,
          .precision = Precision::kept,
          .properties = &properties};
}

}  // namespace troupe
