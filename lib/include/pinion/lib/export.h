#pragma once

/// Marks what the shared library exports; everything else stays hidden.
#define PINION_EXPORT __attribute__((visibility("default")))
