// Buffers, oneDNN calls, products, convolutions and plain loops for the oneDNN programs.
#include "bench/onednn/kit.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace onednn_loops {
namespace {

using dnnl::memory;

int lanes = 1;

const dnnl::stream& stream() {
  thread_local const dnnl::stream mine(engine());
  return mine;
}

// Scratch memory of a lane, shared by its calls, of which one runs at a time.
std::vector<Floats>& scratch() {
  static std::vector<Floats> all(static_cast<size_t>(lanes));
  return all;
}

dnnl::primitive_attr user_scratch() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

int64_t element_count(const memory::desc& desc) {
  return static_cast<int64_t>(desc.get_size() / sizeof(float));
}

}  // namespace

void set_lanes(int count) { lanes = count; }

const dnnl::engine& engine() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

Floats::Floats(int64_t size) : size_(size) {
  const size_t bytes = (static_cast<size_t>(size) * sizeof(float) + 63) / 64 * 64;
  at_.reset(static_cast<float*>(std::aligned_alloc(64, std::max<size_t>(bytes, 64))));
  if (!at_) throw std::bad_alloc();
  std::memset(at_.get(), 0, bytes);
}
void Floats::Free::operator()(float* p) const { std::free(p); }

ModelFile::ModelFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  int64_t at = 0;
  for (std::string line; std::getline(in, line) && !line.empty();) {
    std::istringstream words(line);
    std::string name;
    Entry e;
    words >> name >> e.dtype;
    e.size = 1;
    for (int64_t size = 0; words >> size;) e.size *= size;
    e.at = at;
    at += e.size * (e.dtype == "i64" ? 8 : 4);
    entries_[name] = e;
  }
  bytes_.resize(static_cast<size_t>(at));
  if (at == 0 || !in.read(bytes_.data(), at)) throw std::runtime_error("cannot read " + path);
}

const ModelFile::Entry& ModelFile::entry(const std::string& name, const std::string& dtype) const {
  const auto it = entries_.find(name);
  if (it == entries_.end() || it->second.dtype != dtype)
    throw std::runtime_error("the file of the model has no " + name + " of " + dtype);
  return it->second;
}

Floats ModelFile::floats(const std::string& name) const {
  const Entry& e = entry(name, "f32");
  Floats out(e.size);
  std::memcpy(out.get(), bytes_.data() + e.at, static_cast<size_t>(e.size) * sizeof(float));
  return out;
}

Floats ModelFile::floats(const char* kind, int number) const {
  std::string name(kind);
  name += std::to_string(number);
  return floats(name);
}

std::vector<int64_t> ModelFile::integers(const std::string& name) const {
  const Entry& e = entry(name, "i64");
  std::vector<int64_t> out(static_cast<size_t>(e.size));
  std::memcpy(out.data(), bytes_.data() + e.at, out.size() * sizeof(int64_t));
  return out;
}

// Calls

struct Call::Bound {
  dnnl::primitive primitive;
  std::vector<memory> memories;
  memory::desc scratch;
  struct Lane {
    std::vector<dnnl_exec_arg_t> arguments;
    memory scratch;
    const void* at = nullptr;
  };
  std::vector<Lane> lanes;
};

Call::Call(const dnnl::primitive& primitive, const memory::desc& scratch_desc,
           const std::vector<std::pair<int, std::pair<memory::desc, void*>>>& arguments)
    : bound_(std::make_shared<Bound>()) {
  bound_->primitive = primitive;
  bound_->scratch = scratch_desc;
  std::vector<dnnl_exec_arg_t> all;
  for (const auto& [name, where] : arguments) {
    bound_->memories.emplace_back(where.first, engine(), where.second);
    all.push_back({name, bound_->memories.back().get()});
  }
  const auto needed = static_cast<int64_t>(scratch_desc.get_size() / sizeof(float) + 1);
  for (Floats& lane : scratch())
    if (lane.size() < needed) lane = Floats(needed);
  for (int i = 0; i < onednn_loops::lanes; ++i) {
    Bound::Lane lane{all, {}, nullptr};
    if (scratch_desc.get_size() > 0) {
      lane.scratch = memory(scratch_desc, engine(), nullptr);
      lane.arguments.push_back({DNNL_ARG_SCRATCHPAD, lane.scratch.get()});
    }
    bound_->lanes.push_back(std::move(lane));
  }
}

void Call::run(int lane) const {
  Bound::Lane& mine = bound_->lanes[static_cast<size_t>(lane)];
  if (mine.scratch) {
    float* const at = scratch()[static_cast<size_t>(lane)].get();
    if (at != mine.at) dnnl_memory_set_data_handle(mine.scratch.get(), at);
    mine.at = at;
  }
  const auto status =
      dnnl_primitive_execute(bound_->primitive.get(), stream().get(),
                             static_cast<int>(mine.arguments.size()), mine.arguments.data());
  if (status != dnnl_success) throw std::runtime_error("oneDNN failed");
}

// Products

namespace {

memory::desc rows_of(int64_t rows, int64_t columns, int64_t row, bool transposed) {
  return {{rows, columns},
          memory::data_type::f32,
          transposed ? memory::dims{1, row} : memory::dims{row, 1}};
}

dnnl::matmul::primitive_desc product_desc(const Product& p, const memory::desc& b) {
  const auto a =
      rows_of(p.m, p.k, p.a_row ? p.a_row : (p.a_transposed ? p.m : p.k), p.a_transposed);
  const auto c = rows_of(p.m, p.n, p.c_row ? p.c_row : p.n, false);
  dnnl::primitive_attr attr = user_scratch();
  dnnl::post_ops after;
  if (p.add) after.append_sum(1);
  if (p.relu) after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
  attr.set_post_ops(after);
  if (p.scale != 1) attr.set_output_scales(0, {p.scale});
  if (!p.bias) return {{a, b, c}, attr, engine()};
  return {{a, b, {{1, p.n}, memory::data_type::f32, memory::format_tag::ab}, c}, attr, engine()};
}

}  // namespace

memory::desc plain_matrix(int64_t rows, int64_t columns, bool transposed) {
  return rows_of(rows, columns, transposed ? rows : columns, transposed);
}

memory::desc packed_layout(const Product& p) {
  return product_desc(p, {{p.k, p.n}, memory::data_type::f32, memory::format_tag::any})
      .weights_desc();
}

Call product(const Product& p) {
  const memory::desc b =
      p.packed
          ? *p.packed
          : rows_of(p.k, p.n, p.b_row ? p.b_row : (p.b_transposed ? p.k : p.n), p.b_transposed);
  const auto desc = product_desc(p, b);
  std::vector<std::pair<int, std::pair<memory::desc, void*>>> arguments = {
      {DNNL_ARG_SRC, {desc.src_desc(), const_cast<float*>(p.a)}},
      {DNNL_ARG_WEIGHTS, {desc.weights_desc(), const_cast<float*>(p.b)}},
      {DNNL_ARG_DST, {desc.dst_desc(), p.c}}};
  if (p.bias) arguments.push_back({DNNL_ARG_BIAS, {desc.bias_desc(), const_cast<float*>(p.bias)}});
  return {dnnl::matmul(desc), desc.scratchpad_desc(), arguments};
}

Call reorder(const memory::desc& from, const float* a, const memory::desc& to, float* b) {
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, user_scratch());
  return {dnnl::reorder(desc),
          desc.scratchpad_desc(),
          {{DNNL_ARG_FROM, {from, const_cast<float*>(a)}}, {DNNL_ARG_TO, {to, b}}}};
}

// Convolutions

ConvolutionLayer::ConvolutionLayer(const Convolution& shape, int64_t chunks, Floats filter,
                                   Floats bias, bool input_gradient)
    : shape_(shape),
      chunks_(chunks),
      master_(std::move(filter)),
      bias_(std::move(bias)),
      gradient_(shape.filter_size()),
      to_input_needed_(input_gradient) {
  const auto f32 = memory::data_type::f32;
  const auto nhwc = memory::format_tag::nhwc;
  const int64_t after_all =
      std::max<int64_t>(0, (shape.out_side() - 1) * shape.stride + shape.window - shape.side);
  const memory::dims strides{shape.stride, shape.stride};
  const memory::dims before{after_all / 2, after_all / 2};
  const memory::dims after{after_all - after_all / 2, after_all - after_all / 2};
  x_ = {{shape.images, shape.in, shape.side, shape.side}, f32, nhwc};
  y_ = {{shape.images, shape.out, shape.out_side(), shape.out_side()}, f32, nhwc};
  const memory::dims sizes{shape.out, shape.in, shape.window, shape.window};
  plain_ = {sizes, f32, memory::format_tag::hwio};
  const memory::desc any(sizes, f32, memory::format_tag::any);
  bias_desc_ = shape.bias ? memory::desc({shape.out}, f32, memory::format_tag::a) : memory::desc();

  const auto direct = dnnl::algorithm::convolution_direct;
  dnnl::primitive_attr attr = user_scratch();
  if (shape.relu) {
    dnnl::post_ops relu;
    relu.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    attr.set_post_ops(relu);
  }
  using Forward = dnnl::convolution_forward;
  const auto training = dnnl::prop_kind::forward_training;
  const Forward::desc plain_forward(training, direct, x_, any, y_, strides, before, after);
  const Forward::primitive_desc hint(plain_forward, user_scratch(), engine());
  forward_desc_ = std::make_unique<Forward::primitive_desc>(
      shape.bias ? Forward::desc(training, direct, x_, any, bias_desc_, y_, strides, before, after)
                 : plain_forward,
      attr, engine());
  forward_primitive_ = dnnl::convolution_forward(*forward_desc_);
  using Weights = dnnl::convolution_backward_weights;
  filter_desc_ = std::make_unique<Weights::primitive_desc>(
      shape.bias ? Weights::desc(direct, x_, any, bias_desc_, y_, strides, before, after)
                 : Weights::desc(direct, x_, any, y_, strides, before, after),
      user_scratch(), engine(), hint);
  filter_primitive_ = Weights(*filter_desc_);
  packed_forward_ = Floats(element_count(forward_desc_->weights_desc()));
  to_forward_ = reorder(plain_, master_, forward_desc_->weights_desc(), packed_forward_);
  sums_ = Floats(element_count(filter_desc_->diff_weights_desc()) * chunks);
  if (shape.bias) bias_sums_ = Floats(shape.out * chunks);
  from_filter_ = reorder(filter_desc_->diff_weights_desc(), sums_, plain_, gradient_);
  if (input_gradient) {
    using Images = dnnl::convolution_backward_data;
    input_desc_ = std::make_unique<Images::primitive_desc>(
        Images::desc(direct, x_, any, y_, strides, before, after), user_scratch(), engine(), hint);
    input_primitive_ = Images(*input_desc_);
    packed_input_ = Floats(element_count(input_desc_->weights_desc()));
    to_input_ = reorder(plain_, master_, input_desc_->weights_desc(), packed_input_);
  }
  pack(0);
}

void ConvolutionLayer::bind(int64_t chunk, const float* x, float* y, const float* dy, float* dx) {
  const auto in = const_cast<float*>(x), out_gradient = const_cast<float*>(dy);
  const auto at = static_cast<size_t>(chunk);
  forward_.resize(static_cast<size_t>(chunks_));
  filter_.resize(static_cast<size_t>(chunks_));
  input_.resize(static_cast<size_t>(chunks_));
  std::vector<std::pair<int, std::pair<memory::desc, void*>>> arguments = {
      {DNNL_ARG_SRC, {x_, in}},
      {DNNL_ARG_WEIGHTS, {forward_desc_->weights_desc(), packed_forward_.get()}},
      {DNNL_ARG_DST, {y_, y}}};
  if (shape_.bias) arguments.push_back({DNNL_ARG_BIAS, {bias_desc_, bias_.get()}});
  forward_[at] = Call(forward_primitive_, forward_desc_->scratchpad_desc(), arguments);
  const auto sum_desc = filter_desc_->diff_weights_desc();
  arguments = {{DNNL_ARG_SRC, {x_, in}},
               {DNNL_ARG_DIFF_DST, {y_, out_gradient}},
               {DNNL_ARG_DIFF_WEIGHTS, {sum_desc, sums_ + chunk * element_count(sum_desc)}}};
  if (shape_.bias)
    arguments.push_back({DNNL_ARG_DIFF_BIAS, {bias_desc_, bias_sums_ + chunk * shape_.out}});
  filter_[at] = Call(filter_primitive_, filter_desc_->scratchpad_desc(), arguments);
  if (!to_input_needed_) return;
  input_[at] = Call(input_primitive_, input_desc_->scratchpad_desc(),
                    {{DNNL_ARG_DIFF_DST, {y_, out_gradient}},
                     {DNNL_ARG_WEIGHTS, {input_desc_->weights_desc(), packed_input_.get()}},
                     {DNNL_ARG_DIFF_SRC, {x_, dx}}});
}

void ConvolutionLayer::pack(int lane) const {
  to_forward_.run(lane);
  if (to_input_needed_) to_input_.run(lane);
}

void ConvolutionLayer::update(float rate, float momentum, int lane) {
  const auto tree = [this](float* parts, int64_t size) {
    for (int64_t s = 1; s < chunks_; s *= 2)
      for (int64_t j = 0; j + s < chunks_; j += 2 * s) {
        float* to = parts + j * size;
        const float* from = parts + (j + s) * size;
        for (int64_t i = 0; i < size; ++i) to[i] += from[i];
      }
  };
  tree(sums_, element_count(filter_desc_->diff_weights_desc()));
  from_filter_.run(lane);
  float* w = master_;
  const float* g = gradient_;
  if (momentum > 0) {
    if (velocity_.size() == 0) velocity_ = Floats(shape_.filter_size());
    float* v = velocity_;
    for (int64_t i = 0; i < shape_.filter_size(); ++i) {
      v[i] = momentum * v[i] + g[i];
      w[i] -= rate * v[i];
    }
  } else {
    for (int64_t i = 0; i < shape_.filter_size(); ++i) w[i] -= rate * g[i];
  }
  if (shape_.bias) {
    tree(bias_sums_, shape_.out);
    for (int64_t i = 0; i < shape_.out; ++i) bias_[i] -= rate * bias_sums_[i];
  }
  pack(lane);
}

// Plain loops

void max_pool(const float* x, float* y, int64_t images, int64_t side, int64_t c) {
  const int64_t row = side * c;
  for (int64_t i = 0; i < images * side / 2; ++i)  // rows of y: pairs of rows of x
    for (int64_t j = 0; j < side / 2; ++j) {
      const float *a = x + 2 * i * row + 2 * j * c, *b = a + row;
      float* to = y + (i * (side / 2) + j) * c;
      for (int64_t k = 0; k < c; ++k) {
        const float top = a[k] > a[k + c] ? a[k] : a[k + c];
        const float low = b[k] > b[k + c] ? b[k] : b[k + c];
        to[k] = top > low ? top : low;
      }
    }
}

void max_pool_relu_gradient(const float* x, const float* dy, float* dx, int64_t images,
                            int64_t side, int64_t c) {
  const int64_t row = side * c;
  for (int64_t i = 0; i < images * side / 2; ++i)
    for (int64_t j = 0; j < side / 2; ++j) {
      const int64_t at = 2 * i * row + 2 * j * c;
      const float *a = x + at, *b = a + row, *g = dy + (i * (side / 2) + j) * c;
      float *da = dx + at, *db = da + row;
      ONEDNN_INDEPENDENT
      for (int64_t k = 0; k < c; ++k) {
        const float v0 = a[k], v1 = a[k + c], v2 = b[k], v3 = b[k + c];
        const float top = v0 > v1 ? v0 : v1, low = v2 > v3 ? v2 : v3;
        const float most = top > low ? top : low;
        const float gradient = most > 0 ? g[k] : 0;
        const bool first = v0 == most, second = !first && v1 == most,
                   third = !first && !second && v2 == most;
        da[k] = first ? gradient : 0;
        da[k + c] = second ? gradient : 0;
        db[k] = third ? gradient : 0;
        db[k + c] = !first && !second && !third ? gradient : 0;
      }
    }
}

void relu_mask(float* dx, const float* y, int64_t rows, int64_t columns, int64_t row) {
  for (int64_t i = 0; i < rows; ++i) {
    float* to = dx + i * row;
    const float* from = y + i * row;
    ONEDNN_INDEPENDENT
    for (int64_t j = 0; j < columns; ++j) to[j] = from[j] > 0 ? to[j] : 0;
  }
}

void bias_update(float* b, const float* g, int64_t rows, int64_t columns, int64_t row, float rate) {
  constexpr int64_t kBlock = 512;
  float sums[kBlock];
  for (int64_t at = 0; at < columns; at += kBlock) {
    const int64_t n = std::min(kBlock, columns - at);
    std::fill_n(sums, n, 0.0f);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) sums[j] += g[i * row + at + j];
    for (int64_t j = 0; j < n; ++j) b[at + j] -= rate * sums[j];
  }
}

double softmax_loss(float* logits, const int64_t* labels, int64_t rows, int64_t classes,
                    float scale) {
  double loss = 0;
  for (int64_t i = 0; i < rows; ++i) {
    float* row = logits + i * classes;
    float most = row[0];
    for (int64_t j = 1; j < classes; ++j) most = row[j] > most ? row[j] : most;
    const float label = row[labels[i]];
    float sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += row[j] = std::exp(row[j] - most);
    loss += std::log(static_cast<double>(sum)) + most - label;
    const float factor = scale / sum;
    for (int64_t j = 0; j < classes; ++j) row[j] *= factor;
    row[labels[i]] -= scale;
  }
  return loss;
}

}  // namespace onednn_loops
