// cuLink*: what has been begun (link.cc).
#pragma once

namespace client {

// Those of the life that ends are good for cuLinkDestroy alone; their images stay until then.
void forget_links();

}  // namespace client
