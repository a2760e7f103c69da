// Includes ops.def with every family mapped to ROW(...), unless the includer defined that family
// itself. Undefines all of them afterwards. Deliberately without an include guard.
#ifndef ROW
#define ROW(...)
#endif
#ifndef STRUCTURE
#define STRUCTURE(...) ROW(__VA_ARGS__)
#endif
#ifndef ELEMENTWISE
#define ELEMENTWISE(...) ROW(__VA_ARGS__)
#endif
#ifndef MATH
#define MATH(...) ROW(__VA_ARGS__)
#endif
#ifndef TILE_OP
#define TILE_OP(...) ROW(__VA_ARGS__)
#endif
#ifndef MACHINE_OP
#define MACHINE_OP(...) ROW(__VA_ARGS__)
#endif
#ifndef SIMT_OP
#define SIMT_OP(...) ROW(__VA_ARGS__)
#endif
#include "ir/ops.def"
#undef ROW
#undef STRUCTURE
#undef ELEMENTWISE
#undef MATH
#undef TILE_OP
#undef MACHINE_OP
#undef SIMT_OP
