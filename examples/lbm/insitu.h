// Writes fields into a Quarry dataset while the simulation runs, from its own
// ranks (in situ) or through ranks that do nothing else (in transit), which can
// draw pictures too.

#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "domain.h"
#include "fields.h"
#include "options.h"

namespace lbm {

/// Some ranks that write or draw what the others compute.
class WriterRanks {
 public:
  /// Makes writers of the last ranks of `world`, as many as `options` say: maybe
  /// none. Throws IoError on all ranks if too few are left. Collective over `world`,
  /// as is destruction. `options` outlive this.
  WriterRanks(MPI_Comm world, const Options& options);
  ~WriterRanks();

  /// Whether this rank is one of them: it calls Serve and nothing else.
  bool writes() const;
  /// The ranks that compute.
  MPI_Comm simulation() const;
  /// Writes and draws until all other ranks have destroyed theirs, and prints how it
  /// went. Throws IoError on all ranks if a picture cannot be drawn or written.
  void Serve();

  struct State;
  const State* state() const { return state_.get(); }

 private:
  std::unique_ptr<State> state_;
};

/// A dataset that grows with the simulation, without a dump in between, or steps that
/// are only drawn. All calls
/// are collective over the domain's communicator and throw IoError (dump.h) on all
/// ranks together; the steps before stay readable.
class InsituWriter {
 public:
  /// Creates the dataset that the options name, which must not exist. Without a name
  /// only what the pictures show is handed over.
  InsituWriter(const WriterRanks& writers, const Domain& domain, const Options& options);
  ~InsituWriter();

  /// Adds a step. The fields are read in place, past their halos. With writer
  /// ranks they are copied, and an error may be that of an earlier step.
  void Write(int step, const Fields& fields);

  /// With writer ranks, prints how long the simulation has waited for them.
  void Close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lbm
