#include "tools/quarry/helper_program.h"
#include "tools/quarry/verify.h"

namespace quarry::tools {

Result<int> VerifyAgainst(VerifyOptions /*options*/) {
  return BecomeHelper("quarry-verify", "compares datasets with source files");
}

}  // namespace quarry::tools
