#pragma once

#include "quarry/input/dense.h"

/// Arrays in VTK's XML files, however they are encoded.
namespace quarry::input::internal {

/// How the samples of an array are stored.
struct Encoding {
  DenseLayout layout;
  bool ascii = false;
  bool base64 = false;
  bool compressed = false;
  std::size_t header_bytes = 4;  ///< bytes of each number in front of the samples
  std::uint64_t offset = 0;      ///< offset of the first character or byte in the file
  std::uint64_t length = 0;      ///< length of the text; 0 for appended data
};

/// The array of a piece: samples of a grid of its own.
/// @param info  with the path of the file, the extent and the type
/// @errors kDataLoss, with the path: there are not as many bytes as the extent needs
Result<std::unique_ptr<Input>> OpenVtkArray(InputInfo info, const Encoding& encoding);

}  // namespace quarry::input::internal
