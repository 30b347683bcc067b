#pragma once

#include "quarry/base/status.h"

/// Costs of messages between two processes of a machine.
namespace quarry::plan {

struct MessageCosts {
  double send_s_per_byte = 0;
  double receive_s_per_byte = 0;
  double overhead_s = 0;
};

/// Two processes and two pipes stand in for two ranks of a node and the shared memory between them: like
/// there, a byte is copied once into the channel and once out of it. Call before there are threads: it forks.
Result<MessageCosts> MeasureMessages();

}  // namespace quarry::plan
