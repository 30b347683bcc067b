#include "tools/quarry/cp.h"
#include "tools/quarry/helper_program.h"

namespace quarry::tools {

Result<int> CpSubset(CpOptions /*options*/) {
  return BecomeHelper("quarry-subset", "codes the samples of a box or level anew");
}

}  // namespace quarry::tools
