#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quarry/box.h"
#include "quarry/data_type.h"
#include "quarry/insitu_setup.h"
#include "quarry/result.h"

namespace quarry::intransit {

/// The boxes of one field that a rank of Serve gets in every step.
struct Need {
  std::string field;
  std::vector<Box> boxes;  ///< inside the grid, any number; may overlap, leave gaps, and be empty
};

/// A field of a step, as it arrives.
struct ArrivedField {
  std::string name;
  DataType type{};
  std::vector<Box> boxes;                             ///< as in Need
  std::vector<std::span<const std::byte>> samples{};  ///< samples of each box: dense, x fastest

  /// The samples of a box with the type of the field.
  /// @param box  number of the box in Need
  template <typename T>
  std::span<const T> Samples(std::size_t box) const {
    return {reinterpret_cast<const T*>(samples[box].data()), samples[box].size() / sizeof(T)};
  }
};

/// A step, as it arrives at one rank. All of it is valid until the consumer returns.
struct ArrivedStep {
  const insitu::Setup& setup;  ///< that the simulation opened the dataset with
  std::uint64_t number = 0;
  std::optional<double> time;
  /// Fields that this rank needs and the simulation has put, in the order of the needs.
  const std::vector<ArrivedField>& fields;

  /// Null for a field that is not needed here, or was not put.
  const ArrivedField* Find(const std::string& field) const {
    for (const ArrivedField& arrived : fields) {
      if (arrived.name == field) return &arrived;
    }
    return nullptr;
  }
};

/// Analysis, rendering, or any other use of a simulation's steps while it runs. Every rank of Serve has one,
/// each with its own needs.
///
/// Each step arrives once at every rank, in the order in which the simulation has ended them. The consumers
/// may talk to each other in a call, over Roles::comm(): messages of Serve never meet theirs. A step is in
/// flight until all of them have returned.
///
/// A consumer that returns an error or throws ends everything: Serve returns this error on all of its ranks,
/// and every rank of the simulation gets it from BeginStep or Close. If several fail, it is that of the
/// lowest rank. One that fails must not leave others alone in a collective call.
/// @source Marrinan et al., Automated Dynamic Data Redistribution, section IV.B and figure 5
struct Consumer {
  /// Called when the simulation opens a dataset, before anything is written.
  std::function<Result<std::vector<Need>>(const insitu::Setup& setup)> needs;
  /// Called for every step.
  std::function<Status(const ArrivedStep& step)> consume;

  bool present() const { return needs || consume; }
};

}  // namespace quarry::intransit
