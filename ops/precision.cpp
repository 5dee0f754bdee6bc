// Which op computes in which precision where a graph mixes them. The lists follow Micikevicius et
// al., "Mixed Precision Training" (2018), and PyTorch's autocast: products low, since they are most
// of the work and sum in f32 inside; what sums many elements, or stretches them (powers,
// exponentials, logarithms, quotients), in f32; all others in the dtype of what they read.
#include "ops/precision.hpp"

#include <algorithm>
#include <iterator>

namespace troupe {
namespace {

constexpr std::string_view kLow[] = {
    "BiasAdd",
    "Convolution",
    "ConvolutionFilterGradient",
    "ConvolutionInputGradient",
    "ConvolutionTranspose",
    "MatMul",
};

constexpr std::string_view kWide[] = {
    "Acos",
    "Acosh",
    "Asin",
    "Atanh",
    "BatchNorm",
    "BatchNormInference",
    "Categorical",
    "Cholesky",
    "Cosh",
    "CtcLoss",
    "Cumprod",
    "Cumsum",
    "Determinant",
    "Digamma",
    "Divide",
    "Eigh",
    "Erfinv",
    "Exp",
    "Exp2",
    "Expm1",
    "Inverse",
    "LayerNorm",
    "Lgamma",
    "LinearRecurrence",
    "Log",
    "Log10",
    "Log1p",
    "Log2",
    "LogAddExp",
    "LogDet",
    "LogSumExp",
    "Pow",
    "Qr",
    "Reciprocal",
    "ReduceMean",
    "ReduceProd",
    "ReduceSum",
    "RmsNorm",
    "Rsqrt",
    "SegmentProd",
    "SegmentSum",
    "SigmoidCrossEntropy",
    "Sinh",
    "Softmax",
    "SoftmaxCrossEntropy",
    "Softplus",
    "Solve",
    "SparseDenseMatMul",
    "Square",
    "SquaredDifference",
    "SumRows",
    "SumToLike",
    "Svd",
    "Tan",
    "TriangularSolve",
    "Trigamma",
    "WindowSum",
    "Xlogy",
};

// What only names values, or has a place for one of given type.
constexpr std::string_view kKept[] = {
    "BarrierInsert",
    "Call",
    "Capture",
    "Cast",
    "Enqueue",
    "Fused",
    "Group",
    "Identity",
    "Loop",
    "LoopVariable",
    "Merge",
    "Print",
    "PushFiniteGradient",
    "PushGradient",
    "PushRowGradient",
    "Restore",
    "Return",
    "Save",
    "ShapeOf",
    "StopGradient",
    "While",
    "WithGradient",
};

template <size_t kSize>
bool has(const std::string_view (&list)[kSize], std::string_view op) {
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

}  // namespace

Precision precision_of(std::string_view op) {
  if (has(kLow, op)) return Precision::low;
  if (has(kWide, op)) return Precision::wide;
  return has(kKept, op) ? Precision::kept : Precision::same;
}

}  // namespace troupe
