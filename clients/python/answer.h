#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <optional>

#include "clients/python/background.h"
#include "clients/python/dataset.h"

/// Samples of a dataset as numpy arrays.
namespace quarry::python {

/// The result of `read` and `stream`. The array owns the samples.
struct Answer {
  client::LevelSamples samples;  ///< without its data
  nanobind::any array;
};

Answer ToAnswer(client::LevelSamples samples, GivenType given, const std::optional<nanobind::object>& out);

/// @param mark  missing samples of floats become NaN
/// @param out   memory for the samples; none: a new array
Answer Read(const Dataset& self, const Question& request, bool mark,
            std::optional<nanobind::ndarray<nanobind::c_contig, nanobind::device::cpu>> out);

/// A level on its way to Python.
struct Streamed {
  client::LevelSamples samples;
  GivenType given = GivenType::kStored;
};

std::unique_ptr<Feed<Streamed>> Stream(const Dataset& self, const Question& request);

}  // namespace quarry::python
