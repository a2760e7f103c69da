#pragma once
// Whether this thread prepares launches instead of queueing them (tegula/prepare.h).

namespace tegula::dsl {

bool is_preparing();

}  // namespace tegula::dsl
