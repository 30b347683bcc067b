#pragma once

#include <cstddef>
#include <cstdint>

/// Levels whose samples come back bit by bit, in a layer beyond the first: a sample is coded as the number of
/// floating-point numbers between it and its prediction, with tables by how large that number is expected to
/// be. docs/format.md, "Mode exact with tables".
namespace quarry::interpolate {

/// One plane of a band.
struct ExactPlane {
  const float* predicted = nullptr;
  const float* values = nullptr;            ///< values of the layer before
  const std::uint8_t* validity = nullptr;   ///< or null: all are valid
  const std::uint16_t* activity = nullptr;  ///< errors of predictions nearby
  std::size_t count = 0;
  float half_width = 0;      ///< half width of the intervals, above 0
  float relative_width = 0;  ///< see IntervalArgs
  bool integral = false;
  float* clamped = nullptr;          ///< predictions inside the intervals, times the signs
  float* signs = nullptr;            ///< see IntervalPlane
  float* unclamped = nullptr;        ///< the predictions, for ErrorMagnitudes
  std::uint8_t* contexts = nullptr;  ///< class and bin
};

/// Finds intervals and contexts before a plane is decoded.
void FindExactContexts(const ExactPlane& plane);

/// Logarithms of the errors of predictions, as magnitudes for the activities of samples nearby.
/// @param samples  as decoded
void ErrorMagnitudes(const float* samples, const float* predicted, std::size_t count, float half_width,
                     std::uint16_t* magnitudes);

}  // namespace quarry::interpolate
