#pragma once

#include "quarry/base/status.h"
#include "quarry/command_line/command_line.h"

/// The subcommands of `quarry-reproduce`. Each declares its options on an app and returns what to run when it
/// was chosen.
namespace quarry::reproduction {

using command_line::Command;

Command DeclareFft(command_line::Parser* app);
Command DeclareStack(command_line::Parser* app);

/// The studies that run on all ranks. Rank 0 prints. @collective over MPI_COMM_WORLD
Command DeclareExchange(command_line::Parser* app);
Command DeclarePlacement(command_line::Parser* app);

}  // namespace quarry::reproduction
