#pragma once
// The whole language: include this to write kernels.
#include "tegula/control.h"
#include "tegula/device.h"
#include "tegula/dtype.h"
#include "tegula/error.h"
#include "tegula/kernel.h"
#include "tegula/math.h"
#include "tegula/memory.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"
#include "tegula/tile_ops.h"
#include "tegula/value.h"
#include "tegula/view.h"
