#pragma once

#include "quarry/base/output.h"
#include "quarry/command_line/command_line.h"
#include "quarry/data_type.h"
#include "tools/plan/arguments.h"

/// The subcommands of `quarry-plan`. Each declares its options on an app and returns what to run when it was
/// chosen.
namespace quarry::plan {

using command_line::Command;

Command DeclarePlacement(command_line::Parser* app);
Command DeclarePredict(command_line::Parser* app);
Command DeclareCalibrate(command_line::Parser* app);

}  // namespace quarry::plan
