// The functions of kernels.inl and the DecodeRans of an instruction set, as a table.

namespace {

constexpr Kernels MakeKernels(std::string_view name) {
  return {name,
          PredictPlane<float>,
          PredictPlane<double>,
          Quantise<float>,
          Quantise<double>,
          Dequantise<float>,
          Dequantise<double>,
          ActivityPlane,
          FineBins,
          Classify,
          DecodeRans,
          Unfold,
          UnfoldLow,
          Interleave<std::uint32_t>,
          Interleave<std::uint64_t>,
          Interleave<std::uint16_t>};
}

}  // namespace
