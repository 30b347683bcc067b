#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

#include "quarry/base/status.h"
#include "quarry/box.h"

/// Between the words of Python and those of the library. Axes are z, y, x in Python and x, y, z here, and are
/// turned around in this file and nowhere else.
namespace quarry::python {

template <typename T>
using Zyx = std::tuple<T, T, T>;
using ZyxBox = Zyx<std::pair<std::int64_t, std::int64_t>>;

template <typename T>
Zyx<T> ToZyx(const std::array<T, 3>& xyz) {
  return {xyz[2], xyz[1], xyz[0]};
}

inline ZyxBox ToZyx(const Box& box) {
  const auto range = [&](std::size_t axis) { return std::pair(box.begin[axis], box.end[axis]); };
  return {range(2), range(1), range(0)};
}

template <typename T>
std::array<T, 3> ToXyz(const Zyx<T>& zyx) {
  return {std::get<2>(zyx), std::get<1>(zyx), std::get<0>(zyx)};
}

inline Box ToXyz(const ZyxBox& zyx) {
  Box box;
  std::tie(box.begin[0], box.end[0]) = std::get<2>(zyx);
  std::tie(box.begin[1], box.end[1]) = std::get<1>(zyx);
  std::tie(box.begin[2], box.end[2]) = std::get<0>(zyx);
  return box;
}

/// An error of the library on its way to Python, see quarry.Error.
struct StatusError {
  Status status;
};

/// An argument that is not possible, on its way to Python: a ValueError.
struct ArgumentError {
  Status status;
};

/// @throws ArgumentError
inline void CheckArgument(Status status) {
  if (!status.ok()) throw ArgumentError{std::move(status)};
}

/// @throws std::bad_alloc, StatusError
inline void Check(Status status) {
  if (status.code() == StatusCode::kInternal && status.message() == "no memory") throw std::bad_alloc();
  if (!status.ok()) throw StatusError{std::move(status)};
}

template <typename T>
T Take(Result<T> result) {
  Check(result.status());
  return *std::move(result);
}

}  // namespace quarry::python
