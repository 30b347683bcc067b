// Writes fields into a Quarry dataset while the simulation runs.

#pragma once

#include <memory>
#include <string>

#include "domain.h"
#include "fields.h"

namespace lbm {

/// A dataset that grows with the simulation, without a dump in between. All calls
/// are collective over the domain's communicator and throw IoError (dump.h) on all
/// ranks together; the steps before stay readable.
class InsituWriter {
 public:
  /// Creates the dataset PATH.quarry, which must not exist.
  /// @param relative  largest error, as a fraction of a field's range in a step
  InsituWriter(const Domain& domain, const std::string& path, double relative);
  ~InsituWriter();

  /// Adds a step. The fields are read in place, past their halos.
  void Write(int step, const Fields& fields);

  void Close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lbm
