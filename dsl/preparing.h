#pragma once
// Tells whether launches of this thread are only prepared (tegula/prepare.h).

namespace tegula::dsl {

bool is_preparing();

}  // namespace tegula::dsl
