#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "quarry/base/status.h"
#include "writer/distribution/ownership.h"

/// Messages between simulation and writers. Commands go from the first rank of a dataset's communicator to
/// the first writer, which passes them on, so that all writers see the same ones in the same order. Answers
/// go the other way. Samples go from every simulation rank to the writer of its group.
namespace quarry::intransit::internal {

/// Tags of messages on Link::all: commands; the answer to OpenCommand, of which a rank waits for one at a
/// time; and all other answers about a dataset and its samples. A list of answers is one message.
inline constexpr int kCommandTag = 0;
inline constexpr int kOpenedTag = 1;
inline int DatasetTag(int dataset) { return 2 + dataset; }

/// Opens a dataset; the answer has its number.
struct OpenCommand {
  std::string setup;                ///< see insitu::EncodeSetup
  std::uint64_t message_bytes = 0;  ///< largest message of samples
  std::vector<int> ranks;           ///< in Link::all, of the ranks of the dataset's communicator
  distribution::Ownership owned;    ///< by rank of the dataset's communicator
};

/// Announces a step. For each field, in this order, each rank that owns samples sends its boxes, dense, x
/// fastest, in messages of at most message_bytes. The answer comes when the step is published or known to be
/// lost.
struct StepCommand {
  int dataset = 0;
  std::uint64_t step = 0;
  std::optional<double> time;
  std::vector<std::size_t> fields;  ///< positions in the declaration
};

/// No more steps. Answered.
struct CloseCommand {
  int dataset = 0;
  double waiting_seconds = 0;  ///< time of the simulation rank that has waited longest
};

/// No more commands from this rank. Every simulation rank sends this. Not answered.
struct FinishCommand {};

using Command = std::variant<OpenCommand, StepCommand, CloseCommand, FinishCommand>;

/// The result of a step, or of opening or closing.
struct Answer {
  int dataset = 0;
  std::optional<std::uint64_t> step;
  Status status;
  Status ended;  ///< an error that ended everything, of a consumer; the same in all answers after it
};

std::string Encode(const Command& command);
/// @errors kDataLoss: not made by Encode
Result<Command> DecodeCommand(const std::string& text);

std::string Encode(const std::vector<Answer>& answers);
/// @errors kDataLoss: not made by Encode
Result<std::vector<Answer>> DecodeAnswers(const std::string& text);

/// Blocking; returns when `text` may be changed.
Status SendText(MPI_Comm comm, int target, int tag, const std::string& text);

struct Received {
  int source = 0;
  std::string text;
};

/// Waits for a message. @param source  may be MPI_ANY_SOURCE
Result<Received> ReceiveText(MPI_Comm comm, int source, int tag);

}  // namespace quarry::intransit::internal
