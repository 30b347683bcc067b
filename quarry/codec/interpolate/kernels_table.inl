// The functions of kernels.inl and those that an instruction set has of its own, as a table.

namespace {

constexpr Kernels MakeKernels(std::string_view name) {
  return {name,
          PredictPlane<float>,
          PredictPlane<double>,
          Quantise<float>,
          Quantise<double>,
          Reconstruct<float>,
          Reconstruct<double>,
          ActivityPlane,
          FineBins,
          Classify,
          DecodeRans,
          EncodeRans,
          Compact,
          Expand,
          UnfoldLow,
          FoldLow,
          Interleave<float>,
          Interleave<double>,
          Interleave<std::uint16_t>};
}

}  // namespace
